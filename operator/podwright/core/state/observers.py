"""The observers to which the cache reports its changes. Exceptions of a third-party plugin's observer affect nothing
else.

The cache tells its observers of each change, also while decisions are carried out. So an exception in one of them would
leave the others without the change, and the pod between two states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo


class PlacementObserver(Protocol):
    """Derives data from which pods are on which nodes. Slots are rows of the table. Those who inherit it ignore what
    they do not define.
    """

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        """A pod is on the node now."""
        return

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        """A pod is no longer on the node."""
        return

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """A node was added (`before` is None), changed, or is about to be removed (`after` is None) after all its pods
        were.
        """
        return

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace was added, changed, or removed (it has no labels)."""
        return


MANY: Final = 64
"""From this number of pods on, a batch pays off even if it is used only once."""
PodsInRows = Sequence[tuple[PodInfo, int]]
"""Pods, each with the row of its node."""
Batch = Callable[[bool], None]
"""`batch(present)`: tells an observer that the same pods have come, or have gone, each time all of them."""


@runtime_checkable
class Batching(Protocol):
    """An observer for which thousands of pods that come and go together again and again are less work than one by
    one.
    """

    def batch(self, pods: PodsInRows) -> Batch: ...


def batch_of(observer: PlacementObserver, pods: PodsInRows) -> Batch:
    return observer.batch(pods) if isinstance(observer, Batching) else one_by_one(observer, pods)


def report_all(observer: PlacementObserver, pods: PodsInRows, *, present: bool) -> None:
    """Tells the observer that these pods have come, or have gone."""
    batch = batch_of(observer, pods) if len(pods) >= MANY else one_by_one(observer, pods)
    batch(present)


def one_by_one(observer: PlacementObserver, pods: PodsInRows) -> Batch:
    return partial(_report_each, observer, pods)


def _report_each(observer: PlacementObserver, pods: PodsInRows, present: bool) -> None:
    report = observer.pod_added if present else observer.pod_removed
    for pod, slot in pods:
        report(pod, slot)


ReportIndexException = Callable[[type[Any], str, BaseException], None]
"""`report(kind, method, exception)`: this method of an observer of this class raised the exception."""


class Contained:
    """Forwards each change to an observer. The observer may be wrong about a change at which it raised, and gets the
    later ones.
    """

    __slots__ = ("_report", "observer")

    def __init__(self, observer: PlacementObserver, report: ReportIndexException) -> None:
        self.observer = observer
        self._report = report

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        self._call("pod_added", pod, slot)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        self._call("pod_removed", pod, slot)

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        self._call("node_set", slot, before, after)

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        self._call("namespace_set", name, labels)

    def _call(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self.observer, method)(*arguments)
        except BaseException as error:
            if passes_through(error):
                raise
            self._report(type(self.observer), method, error)


def itself(observer: PlacementObserver) -> PlacementObserver:
    """The observer that a plugin has, whether contained or not."""
    return observer.observer if isinstance(observer, Contained) else observer
