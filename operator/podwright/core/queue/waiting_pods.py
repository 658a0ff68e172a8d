"""WaitingPods: the unschedulable and the gated pods, indexed by plugin: those that rejected a pod, and the one that
gates it.

So an event finds the pods that it may help without a look at all others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from podwright.core.framework.cluster_events import ANY
from podwright.core.objects.compaction import compact_regularly
from podwright.core.queue.hinting import Hints, Occurrence, hints_for
from podwright.core.queue.pods_of_plugin import PodsOfPlugin, StillHeld
from podwright.core.queue.queued_pod import Place, QueuedPod


class WaitingPods:
    """See the module. A pod's place says which of the two it is, and does not change while the pod is here."""

    def __init__(self) -> None:
        self._unschedulable: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._buckets: dict[tuple[int, str, bool], tuple[Hints, PodsOfPlugin[QueuedPod]]] = {}
        """By the policy's hints, the plugin that rejected or gates the pods, and whether it gates them."""
        compact_regularly(self)

    def add(self, queued: QueuedPod, plugins: Iterable[str], hints: Hints) -> None:
        """Adds a pod that these plugins rejected or gate. `hints`: those of its policy."""
        (self._gated if queued.place is Place.GATED else self._unschedulable)[queued.uid] = queued
        queued.hints = hints
        for plugin in plugins:
            key = (id(hints), plugin, queued.place is Place.GATED and plugin == queued.gated_by)
            if key not in self._buckets:
                self._buckets[key] = (hints, PodsOfPlugin(hints.get(plugin, ())))
            queued.buckets.append(self._buckets[key][1])
        self.updated(queued, queued.bound if queued.place is Place.UNSCHEDULABLE else None)

    def updated(self, queued: QueuedPod, bound: Hashable = None) -> None:
        """The pod has changed; one that is not here is not an error. `bound`: holds it back; None: not known."""
        for pods in queued.buckets:
            pods.add(queued.uid, queued.pod, queued, bound)

    def hold(self, queued: QueuedPod, bound: Hashable) -> None:
        """Another bound holds the pod back; one that is not here is not an error."""
        for pods in queued.buckets:
            pods.hold(queued.uid, bound)

    def remove(self, queued: QueuedPod) -> None:
        """Removes a pod; one that is not here is not an error."""
        self._unschedulable.pop(queued.uid, None)
        self._gated.pop(queued.uid, None)
        for bucket in queued.buckets:
            bucket.remove(queued.uid)
        queued.buckets.clear()
        queued.hints = None
        for pods in (self._unschedulable, self._gated):
            if not pods:
                pods.clear()  # an empty dict keeps the capacity that a burst needed

    def candidates(
        self, occurrence: Occurrence, only: str = "", still_held: StillHeld[QueuedPod] | None = None
    ) -> list[QueuedPod]:
        """The pods of all plugins that have a hint for this event, without those that the hint's keys rule out. `only`:
        of this plugin. `still_held`: see `PodsOfPlugin.concerned`.
        """
        if occurrence.event.resource == ANY:
            return list(self)
        found: dict[str, QueuedPod] = {}
        for (_, plugin, gate), (hints, pods) in self._buckets.items():
            if not pods or plugin != (only or plugin):
                continue
            for hint in hints_for(hints, plugin, occurrence.event, gate=gate):
                found.update(pods.concerned(hint, occurrence.before, occurrence.after, still_held))
        return list(found.values())

    @property
    def unschedulable(self) -> int:
        """The number of unschedulable pods."""
        return len(self._unschedulable)

    @property
    def gated(self) -> int:
        """The number of gated pods."""
        return len(self._gated)

    def drop_empty(self) -> None:
        """Drops what belongs to hints of which no pod is left, which may be those of a deleted policy."""
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[1]}

    def __iter__(self) -> Iterator[QueuedPod]:
        """The unschedulable pods, then the gated ones."""
        yield from self._unschedulable.values()
        yield from self._gated.values()

    def __len__(self) -> int:
        return len(self._unschedulable) + len(self._gated)
