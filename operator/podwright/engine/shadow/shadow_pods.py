"""The stream of pending pods for policies in shadow mode, by uid, whatever scheduler they ask for. The condition of a
pod that the other scheduler cannot place says so and why. The last state of a pod that leaves is remembered for a
while: the watch of pods with nodes may report it later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.raw import Raw, condition_of
from podwright.core.queue import SchedulingQueue
from podwright.engine.ports import UNSCHEDULABLE
from podwright.engine.shadow.comparison import Outlook

REMEMBERED: Final = 10_000
"""How many pods are remembered after they have left the stream. That many may come in one burst before the other watch
shows their nodes.
"""
ALL: Final = "*"
"""Stands for the pods of all schedulers."""
LONGEST: Final = 1024
"""Characters of a message."""


@dataclass(slots=True, eq=False)
class Seen:
    """The known state of a pod apart from its object. `message`: why the other scheduler finds no node, by the pod's
    condition; None without a reason.

    `outlooks` and `fits` by the number of a tally. `fits`: True if the policy would place the pod, for which the other
    scheduler finds no node. `changes`, `membership`: see Arrivals and NodeTable, when the outlooks were made.
    """

    message: str | None = None
    nominated: str = ""
    outlooks: dict[int, Outlook] = field(default_factory=dict)
    changes: int = 0
    membership: int = 0
    fits: dict[int, bool] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class WatchedPod:
    """A pod that waits, and its known state."""

    pod: PodInfo
    seen: Seen = field(default_factory=Seen)


class ShadowPods:
    """See the module. The watches of the names in shadow share it."""

    def __init__(
        self, queue: SchedulingQueue, changed: Callable[[WatchedPod], None], left: Callable[[str], None]
    ) -> None:
        """`changed` is called with each pod that has appeared, and with each whose condition, gates or claims have
        changed; `left` with the uid of each that has left.
        """
        self._queue = queue
        self._changed = changed
        self._has_left = left
        self._pods: dict[str, WatchedPod] = {}
        self._left: OrderedDict[str, Seen] = OrderedDict()
        self.clears = 0
        """How often everything was forgotten. Watches that fill it have to list all pods again then."""
        compact_regularly(self)

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def uids(self) -> list[str]:
        """The pods that wait."""
        return [*self._pods]

    def get(self, uid: str) -> WatchedPod | None:
        """A pod that waits."""
        return self._pods.get(uid)

    def last_seen(self, uid: str) -> Seen | None:
        """Returns the known state of a pod that waits, or that has left lately."""
        known = self._pods.get(uid)
        return self._left.get(uid) if known is None else known.seen

    def forget(self, scheduler_name: str) -> None:
        """The pods of this scheduler are watched no more; with ALL, no pods are."""
        for uid in [uid for uid, each in self._pods.items() if scheduler_name in (ALL, each.pod.scheduler_name)]:
            self.drop(uid, None)

    def clear(self) -> None:
        """Forgets all pods."""
        self._pods.clear()
        self._left.clear()
        self.clears += 1

    # As the sink of watches

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def put(self, raw: Raw) -> None:
        """A pod is pending, or has changed. Never raises: an invalid pod is no subject."""
        try:
            uid = self.key(raw)
            known = self._pods.get(uid)
            pod, message = self._parsed(uid, raw), _message(raw)
        except Exception:  # noqa: BLE001 -- one bad object must not stop the others
            return
        if pod.finished or pod.terminating:
            self.drop(uid, None)
            return
        if known is None:
            known = self._pods[uid] = WatchedPod(pod)
        elif known.seen.message == message and _waits_for(known.pod) == _waits_for(pod):
            known.pod, known.seen.nominated = pod, pod.nominated_node_name
            return
        known.pod, known.seen.nominated, known.seen.message = pod, pod.nominated_node_name, message
        self._changed(known)

    def drop(self, key: str, _raw: Raw | None) -> None:
        known = self._pods.pop(key, None)
        if known is not None:
            self._has_left(key)
            self._left[key] = known.seen
            if len(self._left) > REMEMBERED:
                self._left.popitem(last=False)

    def _parsed(self, uid: str, raw: Raw) -> PodInfo:
        """The pod; as the queue has it, if it is there in this version."""
        queued = self._queue.get(uid)
        version = str(raw["metadata"].get("resourceVersion") or "")
        if queued is not None and version and queued.pod.resource_version == version:
            return queued.pod
        return parse_pod(raw)


def _waits_for(pod: PodInfo) -> tuple[object, ...]:
    """Returns the gates and claims that may keep the pod waiting before any scheduler tries it."""
    return pod.gates, pod.generated_claims


def _message(raw: Raw) -> str | None:
    """Returns the message of the condition PodScheduled; None if the pod is not unschedulable by it."""
    condition = condition_of(raw, "PodScheduled")
    unschedulable = condition.get("status") == "False" and condition.get("reason") == UNSCHEDULABLE
    return str(condition.get("message") or "")[:LONGEST] if unschedulable else None
