"""PodsOfPlugin: the waiting pods that one plugin rejected or gates, found by the keys of its hints.

Keys may come from third-party code. Where that raises, the pod or the event counts as one without keys, so that no pod
is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from podwright.core.framework.cluster_events import EventHint, HintKeys
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.pod import PodInfo

P = TypeVar("P")

_ANY_EVENT: Final = object()
"""The key of pods whose keys are not known."""

_OfPod = Callable[[PodInfo], Iterable[Hashable]]
_Key = tuple[_OfPod, Hashable]
"""With the function that makes it: hints of one function have the same keys of a pod."""


class PodsOfPlugin(Generic[P]):
    """See the module. `P`: what is found, by the pod's uid."""

    def __init__(self, hints: Iterable[EventHint]) -> None:
        self._keys_of_hints = tuple(dict.fromkeys(h.keys.of_pod for h in hints if h.keys))
        self._all: dict[str, P] = {}
        self._by_key: dict[_Key, dict[str, P]] = {}
        self._keys: dict[str, list[_Key]] = {}
        """By uid."""
        compact_regularly(self)

    def add(self, uid: str, pod: PodInfo, found: P) -> None:
        """Adds a pod, or replaces what is known of it."""
        self._all[uid] = found
        if self._keys_of_hints:
            self._drop_keys(uid)
            self._keys[uid] = [key for of_pod in self._keys_of_hints for key in _keys_of_pod(of_pod, pod)]
            for key in self._keys[uid]:
                self._by_key.setdefault(key, {})[uid] = found

    def remove(self, uid: str) -> None:
        """Removes a pod. An unknown one is not an error."""
        self._all.pop(uid, None)
        self._drop_keys(uid)

    def concerned(self, hint: EventHint, before: Any, after: Any) -> Mapping[str, P]:
        """The pods for which the hint's function must be called, by uid. `before` and `after`: the object of the
        event.
        """
        keys, found = hint.keys, dict[str, P]()
        key = None if keys is None else _key_of_event(keys, before, after)
        if keys is None or key is None:
            return self._all
        if callable(key):
            for (of, each), pods in self._by_key.items():
                if of == keys.of_pod and (each is _ANY_EVENT or key(each)):
                    found |= pods
            return found
        found |= self._by_key.get((keys.of_pod, _ANY_EVENT), {})
        for each in key if isinstance(key, frozenset) else (key,):
            found |= self._by_key.get((keys.of_pod, each), {})
        return found

    def __len__(self) -> int:
        return len(self._all)

    def _drop_keys(self, uid: str) -> None:
        for key in self._keys.pop(uid, ()):
            pods = self._by_key.get(key)
            if pods is not None:
                pods.pop(uid, None)
                if not pods:
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
