"""LeastFirst: the placed pods of one queue, the least important first, in an order that is kept while they come and go.

First by the lowest priority, then pods without a group, then the youngest. So whoever frees a limit looks at the pods
that go, and not at all that hold it. Pods that terminate are kept apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from math import inf
from operator import itemgetter

from podwright.core.objects.pod import PodInfo

Importance = tuple[int, bool, float, str]
_Key = tuple[bool, int, bool, float, str]


class LeastFirst:
    """See the module."""

    __slots__ = ("_keys", "_sorted")

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._sorted: list[_Key] = []
        """The keys in order, those of terminating pods last."""

    def add(self, pod: PodInfo) -> None:
        started = -inf if pod.start_time is None else -pod.start_time
        key = self._keys[pod.uid] = pod.terminating, pod.priority, bool(pod.group), started, pod.uid
        insort(self._sorted, key)

    def remove(self, uid: str) -> None:
        del self._sorted[bisect_left(self._sorted, self._keys.pop(uid))]

    def items(
        self, newest: Callable[[str], PodInfo | None], *, ending: bool = False, after: Importance | None = None
    ) -> Iterator[tuple[Importance, PodInfo]]:
        """The pods with what sorts them: those that stay, or that are `ending`. `newest`: the newest version of a pod,
        which may have its start time only now; None leaves it out. Nothing may be added or removed meanwhile. `after`:
        only those that this sorts before.
        """
        index = bisect_left(self._sorted, True, key=itemgetter(0)) if ending else 0
        if after is not None:
            index = bisect_right(self._sorted, (ending, *after))
        while index < len(self._sorted) and self._sorted[index][0] == ending:
            key = self._sorted[index][1:]
            pod = newest(key[-1])
            if pod is not None and key[2] == -inf and pod.start_time is not None:
                self.remove(pod.uid)
                self.add(pod)
                continue
            if pod is not None:
                yield key, pod
            index += 1
