"""ClaimState: the claims, and the allocations that decisions have made but the watch has not delivered yet.

    unallocated ─► in flight (begin) ─► written, and not delivered yet (written) ─► allocated (the watch)
         ▲              └── end, without a write ──┐
         └─────────────────────────────────────────┘

Invariant: each claim counts once in `usage`, with its allocation in flight if there is one, else with that of its
newest version. So what a decision takes counts at once, and nothing counts twice when the watch delivers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import (
    FOR_EXTENDED_RESOURCES,
    AllocatedDevice,
    Allocation,
    ResourceClaim,
    parse_resource_claim,
)
from podwright.core.objects.items_by_key import drop
from podwright.core.state.devices.holders import Holders, Rival
from podwright.core.state.devices.usage import DeviceUsage
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.parsed_objects import ParsedObjects
from podwright.core.state.volumes.assumed import version_of

CLAIM_KIND: Final = "ResourceClaim"

Key = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class AllocationInFlight:
    """An allocation that is being written to the claim `key`. `pods`: the uids of the pods for which it is; `group`:
    their pod group.
    """

    key: Key
    allocation: Allocation
    pods: frozenset[str]
    group: str


class ClaimState:
    """See the module."""

    def __init__(self, store: ObjectStore) -> None:
        self.usage = DeviceUsage()
        self.changes = 0
        """Rises with each change of what is in flight or written."""
        self._store = store
        self._counted: dict[str, tuple[AllocatedDevice, ...]] = {}
        """By uid: what each allocated claim has in `usage`."""
        self._in_flight: dict[str, AllocationInFlight] = {}
        self._written: dict[Key, Object] = {}
        self._seen = 0
        self._seen_before = 0
        """The newest version that the watch has delivered, until now and until the last compaction."""
        self._of_pods: dict[str, dict[Key, None]] = {}
        """The claims that were created for extended resources, by the uid of the pod that owns them."""
        self.doubted: set[str] = set()
        """The uids of claims with a write that failed, but may have been carried out: what is known of them may be old.
        """
        self.holders = Holders()
        self.on_rival: Callable[[ResourceClaim, Rival], None] = lambda _claim, _rival: None
        """Called when the watch shows a claim with a device that another claim got earlier."""
        self._parsed = ParsedObjects(store, CLAIM_KIND, parse=parse_resource_claim)
        store.listen(CLAIM_KIND, self._changed)
        compact_regularly(self)

    def compact(self) -> None:
        for key in tuple(self._written):
            self._drop_if_delivered(key)
        self._seen_before = self._seen

    # Reading

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The newest version of a claim: as written, or as stored."""
        key = namespace, name
        raw = self._store.get(CLAIM_KIND, name, namespace)
        if self._written:
            raw = self._newest(key, raw)
        return None if raw is None else self._parsed.get(key, raw)

    def created_for(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was created for the extended resources of a pod."""
        for namespace, name in self._of_pods.get(pod_uid, ()):
            return self.get(namespace, name)
        return None

    def is_shown(self, claim: ResourceClaim) -> bool:
        """True if the watch has shown this version of the claim, or a newer one."""
        stored = self._store.get(CLAIM_KIND, claim.name, claim.namespace)
        return stored is not None and uid_of(stored) == claim.uid and not _newer(claim.raw, stored)

    def in_flight(self, uid: str) -> AllocationInFlight | None:
        """The allocation of a claim that is being written."""
        return self._in_flight.get(uid)

    # Writing

    def begin(self, claim: ResourceClaim, allocation: Allocation, pod_uid: str, group: str = "") -> None:
        """A decision has allocated the claim, which is not written yet. Several pods of one group may share it."""
        known = self._in_flight.get(claim.uid)
        pods = frozenset((pod_uid,)) if known is None else known.pods | {pod_uid}
        self._in_flight[claim.uid] = AllocationInFlight((claim.namespace, claim.name), allocation, pods, group)
        self.changes += 1
        if known is None:
            self._count(claim.uid, allocation.devices)

    def end(self, uid: str, pod_uid: str) -> bool:
        """The pod no longer needs the allocation in flight: it is written, or will not be. Returns whether it was the
        last pod.
        """
        known = self._in_flight.get(uid)
        if known is None or pod_uid not in known.pods:
            return False
        self.changes += 1
        left = known.pods - {pod_uid}
        if left:
            self._in_flight[uid] = replace(known, pods=left)
            return False
        del self._in_flight[uid]
        current = self.get(*known.key)
        allocation = current.allocation if current is not None and current.uid == uid else None
        self._count(uid, () if allocation is None else allocation.devices)
        return True

    def written(self, raw: Object, *, created: bool = False) -> None:
        """The API server has stored this version of a claim. It counts until the watch delivers it, or a newer one.

        A claim that is not known and was not `created` just now is gone: the watch was faster than the answer.
        """
        key = key_of(raw)
        stored = self._store.get(CLAIM_KIND, key[1], key[0])
        if stored is None and key not in self._written and not created:
            return
        if stored is not None and not _newer(raw, stored):
            return
        before = self._written.get(key, stored)
        self._written[key] = raw
        self.changes += 1
        self._update(before, raw)

    def forget(self, namespace: str, name: str) -> None:
        """Forgets a claim that was written, perhaps never delivered, and deleted."""
        written = self._written.pop((namespace, name), None)
        if written is not None:
            self.changes += 1
            self._update(written, self._store.get(CLAIM_KIND, name, namespace))

    def doubt(self, claim: ResourceClaim) -> None:
        """A write to the claim failed, but may have been carried out."""
        known = self.get(claim.namespace, claim.name)
        if known is not None and known.uid == claim.uid:
            self.doubted.add(claim.uid)

    # Internals

    def _changed(self, before: Object | None, after: Object | None) -> None:
        version = "" if after is None else version_of(after)
        if version.isdigit():
            self._seen = max(self._seen, int(version))
        written = self._written.get(key_of(after if after is not None else before or {})) if self._written else None
        if written is None:
            self._update(before, after)
        elif after is None or not _newer(written, after):
            del self._written[key_of(written)]
            self._update(written, after)
        self._shown(before, after)

    def _shown(self, before: Object | None, after: Object | None) -> None:
        uid = None if after is None else uid_of(after)
        if before is not None and uid_of(before) != uid:
            self.holders.gone(uid_of(before))
            self.doubted.discard(uid_of(before))
            before = None
        if after is None or uid is None:
            return
        if not _is_allocated(after):
            self.holders.gone(uid)
            return
        key = key_of(after)
        claim = self._parsed.get(key, after)
        devices = () if claim.allocation is None else claim.allocation.devices
        if self.holders.shown(uid, key, devices, "" if before is None else version_of(after)):
            rival = self.holders.rival(uid)
            if rival is not None:
                self.on_rival(claim, rival)

    def _update(self, before: Object | None, after: Object | None) -> None:
        uid = None if after is None else uid_of(after)
        if before is not None and uid_of(before) != uid:
            self._settle(before, gone=True)
        if after is not None:
            self._settle(after, gone=False)

    def _settle(self, raw: Object, *, gone: bool) -> None:
        """Counts what the claim has got, or (`gone`) no longer. Parses it only if there is something to count."""
        uid = uid_of(raw)
        if _created_for_pod(raw):
            self._settle_owner(self._parsed.get(key_of(raw), raw), gone=gone)
        if uid in self._in_flight:
            return
        if gone or not _is_allocated(raw):
            if uid in self._counted:
                self._count(uid, ())
            return
        allocation = self._parsed.get(key_of(raw), raw).allocation
        self._count(uid, () if allocation is None else allocation.devices)

    def _settle_owner(self, claim: ResourceClaim, *, gone: bool) -> None:
        if claim.owner is None:
            return
        key, pod = (claim.namespace, claim.name), claim.owner.uid
        if not gone:
            self._of_pods.setdefault(pod, {})[key] = None
        else:
            drop(self._of_pods, pod, key)

    def _count(self, uid: str, devices: Iterable[AllocatedDevice]) -> None:
        before, after = self._counted.get(uid, ()), tuple(devices)
        if before is after:
            return
        self.usage.add(after)
        self.usage.remove(before)
        if after:
            self._counted[uid] = after
        else:
            self._counted.pop(uid, None)

    def _newest(self, key: Key, stored: Object | None) -> Object | None:
        written = self._written.get(key)
        return stored if written is None or (stored is not None and not _newer(written, stored)) else written

    def _drop_if_delivered(self, key: Key) -> None:
        stored, version = self._store.get(CLAIM_KIND, key[1], key[0]), version_of(self._written[key])
        if stored is not None:
            if not _newer(self._written[key], stored):
                del self._written[key]
        elif version.isdigit() and int(version) < self._seen_before:
            self.forget(*key)  # deleted while the watch was interrupted


def _newer(ours: Object, theirs: Object) -> bool:
    """True if our version is newer. Versions that are not numbers cannot be compared: then the watch is right."""
    mine, seen = version_of(ours), version_of(theirs)
    return mine.isdigit() and seen.isdigit() and int(mine) > int(seen)


def _is_allocated(raw: Object) -> bool:
    status = raw.get("status")
    return isinstance(status, Mapping) and status.get("allocation") is not None


def uid_of(raw: Object) -> str:
    """The uid of a claim, or what stands for it."""
    metadata = raw["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace') or ''}/{metadata['name']}")


def _created_for_pod(raw: Object) -> bool:
    annotations = raw["metadata"].get("annotations")
    return isinstance(annotations, Mapping) and annotations.get(FOR_EXTENDED_RESOURCES) == "true"
