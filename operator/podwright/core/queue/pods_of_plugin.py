"""PodsOfPlugin: the waiting pods that one plugin rejected or gates, found by the keys of its hints, without those whose
bound an event leaves as it is.

Keys may come from third-party code. Where that raises, the pod or the event counts as one without keys, so that no pod
is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from podwright.core.framework.cluster_events import EventHint, HintKeys
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo

P = TypeVar("P")

_ANY_EVENT: Final = object()
"""The key of pods whose keys are not known."""

_OfPod = Callable[[PodInfo], Iterable[Hashable]]
_Key = tuple[_OfPod, Hashable]
"""With the function that makes it: hints of one function have the same keys of a pod."""
StillHeld = Callable[[Hashable, P], bool]
"""(a bound, one of the pods that it holds back) → whether these pods are left out."""


class PodsOfPlugin(Generic[P]):
    """See the module. `P`: what is found, by the pod's uid."""

    def __init__(self, hints: Iterable[EventHint]) -> None:
        self._keys_of_hints = tuple(dict.fromkeys(h.keys.of_pod for h in hints if h.keys))
        self._all: dict[str, P] = {}
        self._by_key: dict[_Key, dict[Hashable, dict[str, P]]] = {}
        """By key, the bound that holds the pods back, and uid."""
        self._keys: dict[str, tuple[Hashable, list[_Key]]] = {}
        """By uid: the bound, and the keys."""
        compact_regularly(self)

    def add(self, uid: str, pod: PodInfo, found: P, bound: Hashable = None) -> None:
        """Adds a pod, or replaces what is known of it. `bound`: holds the pod back; None: none is known."""
        self._all[uid] = found
        if self._keys_of_hints:
            self._drop_keys(uid)
            keys = [key for of_pod in self._keys_of_hints for key in _keys_of_pod(of_pod, pod)]
            self._keys[uid] = bound, keys
            for key in keys:
                self._by_key.setdefault(key, {}).setdefault(bound, {})[uid] = found

    def hold(self, uid: str, bound: Hashable) -> None:
        """Another bound holds the pod back. Ignores an unknown one."""
        before, keys = self._keys.get(uid, (bound, []))
        if before != bound:
            self._drop_keys(uid)
            self._keys[uid] = bound, keys
            for key in keys:
                self._by_key.setdefault(key, {}).setdefault(bound, {})[uid] = self._all[uid]

    def remove(self, uid: str) -> None:
        """Removes a pod. An unknown one is not an error."""
        self._all.pop(uid, None)
        self._drop_keys(uid)

    def concerned(
        self, hint: EventHint, before: Any, after: Any, still_held: StillHeld[P] | None = None
    ) -> Mapping[str, P]:
        """The pods for which the hint's function must be called, by uid. `before` and `after`: the object of the
        event. Pods that are `still_held` may be among them, but to leave them out costs nothing for each.
        """
        keys = hint.keys
        key = None if keys is None else _key_of_event(keys, before, after)
        if keys is None or key is None:
            return self._all
        if callable(key):
            named = [each for of, each in self._by_key if of == keys.of_pod and (each is _ANY_EVENT or key(each))]
        else:
            named = [_ANY_EVENT, *(key if isinstance(key, frozenset) else (key,))]
        found = dict[str, P]()
        for each in named:
            for bound, pods in self._by_key.get((keys.of_pod, each), {}).items():
                if bound is None or still_held is None or not still_held(bound, next(iter(pods.values()))):
                    found |= pods
        return found

    def __len__(self) -> int:
        return len(self._all)

    def _drop_keys(self, uid: str) -> None:
        bound, keys = self._keys.pop(uid, (None, ()))
        for key in keys:
            drop(self._by_key[key], bound, uid)
            if not self._by_key[key]:
                del self._by_key[key]


def _keys_of_pod(of_pod: _OfPod, pod: PodInfo) -> list[_Key]:
    try:
        return [(of_pod, key) for key in dict.fromkeys(of_pod(pod))]
    except BaseException as error:
        if passes_through(error):
            raise
        return [(of_pod, _ANY_EVENT)]


def _key_of_event(keys: HintKeys, before: Any, after: Any) -> Hashable | None:
    try:
        key = keys.of_event(before, after)
        hash(key)
    except BaseException as error:
        if passes_through(error):
            raise
        return None
    return key
