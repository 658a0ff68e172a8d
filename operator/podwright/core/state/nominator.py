"""Nominator: pods that are nominated to a node (`nominatedNodeName`) but not on it yet, and preemptors that wait for
their victims.

A pod leaves room for nominated pods of equal or higher priority. If it is not system-critical, it also leaves room for
those for which the claim of their queue has had others evicted, or the next victims would be in vain, too, and, if it
has a queue, for those of other queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

SYSTEM_CRITICAL: Final = 2_000_000_000
"""The least priority that Kubernetes keeps for its own."""
Rank = tuple[str, int, frozenset[str]]
"""The queue of a pod, "" for none, its priority, and the names of the reservations that are for it."""
NO_RESERVATIONS: Final = frozenset[str]()
_SLOT: Final = "reservation/"


def slot_uid(reservation: str, index: int) -> str:
    """The uid of the nominated pod that stands for a slot of a reservation."""
    return f"{_SLOT}{reservation}/{index}"


def reservation_of(nominated: PodInfo) -> str:
    """The name of the reservation of a slot; "" for a pod."""
    uid = nominated.uid
    return uid[len(_SLOT) :].rpartition("/")[0] if uid.startswith(_SLOT) else ""


@dataclass(frozen=True, slots=True)
class Nominations:
    """A copy of all nominations, in order."""

    node_of: Mapping[str, str]
    pods: Mapping[str, Mapping[str, PodInfo]]
    claimants: frozenset[str]


class Nominator:
    """Nominated pods by node. A pod is nominated to one node at most."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._claimants: set[str] = set()
        self.changes = 0
        """Rises with each change."""
        self.changed_at: dict[str, int] = {}
        """By node with nominated pods: `changes` when these last changed."""
        self.preempting: set[str] = set()
        """Uids of pods and keys of pod groups whose victims are being evicted. It is kept here because plugins are
        rebuilt when their policy changes."""
        self.queue_of: Callable[[PodInfo], str] | None = None
        """The queue of a pod, "" for none. None: there are no queues."""
        self.usable_by: Callable[[PodInfo], frozenset[str]] | None = None
        """The names of the reservations that are for a pod. None: there are no reservations."""
        self.listener: Callable[[PodInfo, int], object] | None = None
        """Called with each pod that is nominated (1), or no longer nominated (-1)."""
        compact_regularly(self)

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Nominates the pod to this node instead of any other. To the same one, it goes on holding its room there."""
        holds = pod.uid in self._claimants and self._node_of[pod.uid] == node_name
        self.remove(pod.uid)
        if holds:
            self._claimants.add(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods.setdefault(node_name, {})[pod.uid] = pod
        self._changed((node_name,))
        if self.listener is not None:
            self.listener(pod, 1)

    def remove(self, uid: str) -> str:
        """Ends the nomination of a pod. The node to which it was nominated, or an empty string."""
        node_name = self._node_of.pop(uid, "")
        if node_name:
            self._claimants.discard(uid)
            pods = self._pods[node_name]
            pod = pods.pop(uid)
            self._changed((node_name,))
            if self.listener is not None:
                self.listener(pod, -1)
            if not pods:
                del self._pods[node_name], self.changed_at[node_name]
        return node_name

    def hold_room(self, uids: Iterable[str]) -> None:
        """The claim of their queue has others evicted for these pods. Ignores those that are not nominated."""
        nominated = [uid for uid in uids if uid in self._node_of]
        self._claimants.update(nominated)
        self._changed(self._node_of[uid] for uid in nominated)

    def _changed(self, nodes: Iterable[str]) -> None:
        self.changes += 1
        self.changed_at.update(dict.fromkeys(nodes, self.changes))

    def node_of(self, uid: str) -> str:
        """The node that the pod is nominated to, or an empty string."""
        return self._node_of.get(uid, "")

    def on(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node."""
        return self._pods.get(node_name, {}).values()

    def holding_on(self, node_name: str) -> Sequence[PodInfo]:
        """Returns the pods nominated to the node for which the claim of their queue has others evicted."""
        return [pod for pod in self.on(node_name) if pod.uid in self._claimants] if self._claimants else ()

    def before(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        """The pods nominated to the node that this pod must leave room for."""
        pods = self._pods.get(node_name)
        if pods is None:
            return ()
        return [other for other in self.before_rank(self.rank(pod), pods.values()) if other.uid != pod.uid]

    def leaving_for(self, pod: PodInfo, node: NodeInfo, others: Iterable[PodInfo]) -> Sequence[PodInfo]:
        """The terminating pods of the node whose room these nominated pods will have, so that this pod need not wait
        for them: if it holds room there, too, and the others are claimants like it, none of a higher priority.
        """
        if pod.uid not in self._claimants or self._node_of[pod.uid] != node.name:
            return ()
        if any(other.uid not in self._claimants or other.priority > pod.priority for other in others):
            return ()
        return [other for other in node.pods.values() if other.terminating]

    def rank(self, pod: PodInfo) -> Rank:
        """Returns the properties of the pod that decide for which nominated pods it must leave room."""
        usable = NO_RESERVATIONS if self.usable_by is None else self.usable_by(pod)
        return ("" if self.queue_of is None else self.queue_of(pod)), pod.priority, usable

    def before_rank(self, rank: Rank, nominated: Iterable[PodInfo]) -> list[PodInfo]:
        """Returns the nominated pods that a pod of this rank must leave room for. Priorities do not count between
        queues.
        """
        queue, priority, usable = rank
        if usable:
            nominated = [other for other in nominated if reservation_of(other) not in usable]
        if self.queue_of is None or priority >= SYSTEM_CRITICAL:
            return [other for other in nominated if other.priority >= priority]
        return [
            other
            for other in nominated
            if other.priority >= priority or other.uid in self._claimants or (queue and self.queue_of(other) != queue)
        ]

    def behind_rank(self, rank: Rank, nominated: Mapping[str, PodInfo]) -> list[PodInfo]:
        """Returns the nominated pods, by uid, that leave room for a pod of this rank. Most hold theirs, and are skipped
        at once.
        """
        holding = self._claimants if self.queue_of is not None and rank[1] < SYSTEM_CRITICAL else ()
        others = {uid: nominated[uid] for uid in nominated.keys() - holding}
        for pod in self.before_rank(rank, others.values()):
            del others[pod.uid]
        return [*others.values()]

    def highest_behind(self, pod: PodInfo) -> int | None:
        """The highest priority that leaves room for this nominated pod. None: it may be any, because pods of queues
        leave room for those of others.
        """
        return pod.priority if self.queue_of is None else None

    def add_again(self) -> None:
        """Adds all nominated pods again, because their queues may have changed."""
        for uid, node_name in [*self._node_of.items()]:
            self.add(self._pods[node_name][uid], node_name)

    def behind(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        """The other pods nominated to the node, which leave room for this pod."""
        first = {pod.uid, *(other.uid for other in self.before(pod, node_name))}
        return [other for other in self.on(node_name) if other.uid not in first]

    def nodes(self) -> Collection[str]:
        """Nodes to which pods are nominated."""
        return self._pods.keys()

    def copy(self) -> Nominations:
        """For a transaction."""
        return Nominations(
            dict(self._node_of), {name: dict(pods) for name, pods in self._pods.items()}, frozenset(self._claimants)
        )

    def restore(self, nominations: Nominations) -> None:
        """Replaces all nominations by those of a copy."""
        before = self._nominated() if self.listener else {}
        self._node_of, self._claimants = dict(nominations.node_of), set(nominations.claimants)
        self._pods = {name: dict(pods) for name, pods in nominations.pods.items()}
        self.changed_at.clear()
        self._changed(self._pods)
        if self.listener is not None:
            after = self._nominated()
            for uid in before.keys() - after.keys():
                self.listener(before[uid], -1)
            for uid in after.keys() - before.keys():
                self.listener(after[uid], 1)

    def _nominated(self) -> dict[str, PodInfo]:
        return {uid: pod for pods in self._pods.values() for uid, pod in pods.items()}

    def __len__(self) -> int:
        return len(self._node_of)
