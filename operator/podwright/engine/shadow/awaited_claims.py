"""AwaitedClaims: the claims that pods with early decisions wait for. When a claim changes, its pods are decided about
again.

A claim may come after its pod: a controller creates the claim of an ephemeral volume or of a template for the pod.
Until then no policy finds a node. Bounded by the claims that waiting pods name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.object_store import Object, key_of

_VOLUME_CLAIM = "PersistentVolumeClaim"
_RESOURCE_CLAIM = "ResourceClaim"

_Key = tuple[str, str, str]
"""Kind, namespace and name."""


class AwaitedClaims:
    """See the module."""

    def __init__(self, cache: Cache, changed: Callable[[str], None]) -> None:
        """`changed` is called with the uid of each pod that waits for a claim which has changed."""
        self._cache = cache
        self._changed = changed
        self._pods: dict[_Key, dict[str, None]] = {}
        """The uids of the pods that wait for a claim."""
        self._claims: dict[str, tuple[_Key, ...]] = {}
        """The claims that a pod waits for, by its uid."""
        for kind in (_VOLUME_CLAIM, _RESOURCE_CLAIM):
            cache.store.listen(kind, partial(self._claim_changed, kind))
        compact_regularly(self)

    def __len__(self) -> int:
        """How many pods wait for a claim."""
        return len(self._claims)

    def note(self, pod: PodInfo) -> bool:
        """True if the pod waits for a claim that does not exist, or is not bound and has to be. If so, `changed` tells
        when such a claim changes.
        """
        self.forget(pod.uid)
        awaited = dict.fromkeys(self._awaited(pod))
        keys = tuple(key for key in awaited if key is not None)
        if keys:
            self._claims[pod.uid] = keys
        for key in keys:
            self._pods.setdefault(key, {})[pod.uid] = None
        return bool(awaited)

    def forget(self, uid: str) -> None:
        """The pod does not wait any more."""
        for key in self._claims.pop(uid, ()):
            drop(self._pods, key, uid)

    def clear(self) -> None:
        """Forgets all pods."""
        self._pods.clear()
        self._claims.clear()

    def _claim_changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if raw is not None and self._pods:
            for uid in [*self._pods.get((kind, *key_of(raw)), ())]:
                self._changed(uid)

    def _awaited(self, pod: PodInfo) -> Iterator[_Key | None]:
        """None for a claim whose name is not known yet: the pod changes when it is."""
        for name, _ in claims_of(pod):
            if self._must_change(pod.namespace, name):
                yield _VOLUME_CLAIM, pod.namespace, name
        for entry in pod.resource_claims:
            generated = pod.generated_claims.get(entry.name)
            if not entry.claim and generated is None:
                yield None
            elif (name := entry.claim or generated or "") and not self._exists(pod.namespace, name):
                yield _RESOURCE_CLAIM, pod.namespace, name

    def _exists(self, namespace: str, name: str) -> bool:
        return self._cache.store.get(_RESOURCE_CLAIM, name, namespace) is not None

    def _must_change(self, namespace: str, name: str) -> bool:
        """True if no scheduler can place pods with this claim as it is."""
        index = self._cache.volumes.index
        claim = index.stored_claim(namespace, name)
        if claim is None or claim.lost or claim.terminating:
            return True
        if claim.bound:
            return False
        found = index.storage_class(claim.storage_class) if claim.storage_class else None
        return found is None or found.binding_mode != WAIT_FOR_FIRST_CONSUMER
