"""NodesAside: two states of nodes to exchange: after a transaction, kept while it is suspended, and before it, kept while it goes on.

A large transaction that is paused every few milliseconds would add up the sums of thousands of nodes for each pause, twice. Instead, their
pods and sums are computed once, and exchanged. Invariant: of the two states of a node, one is in the cache and the other here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import Nominations
from podwright.core.state.observers import Batch, PlacementObserver


@dataclass(frozen=True, slots=True)
class Orders:
    """`placed`: the placed members of groups, in order, before and after the transaction, by key. `partially_placed`: the keys of partially placed
    groups before it, in order; None: no group was touched. `nominations`: those after it; None: they are the same before it.
    """

    placed: Mapping[str, tuple[Mapping[str, PodInfo], Mapping[str, PodInfo]]]
    partially_placed: Collection[str] | None
    nominations: Nominations | None


class NodesAside:
    """`pods`: by uid, the pods that are on their nodes before the transaction and not after it; `assumed`: the uids of those that are assumed."""

    def __init__(
        self,
        cache: Cache,
        names: Collection[str],
        *,
        pods: Mapping[str, PodInfo],
        assumed: Collection[str],
        orders: Orders,
    ) -> None:
        """Call it when these nodes are as the transaction has left them, without `pods`. The caller rolls the transaction back next."""
        self._cache = cache
        self._nodes: Sequence[NodeInfo] = [cache.nodes[name] for name in names]
        self._others: Sequence[NodeInfo] = [info.duplicate() for info in self._nodes]
        self._slots = [info.slot for info in self._nodes]
        self._usage = cache.table.usage(self._slots)
        self._pods = pods
        self._placed: Sequence[tuple[PodInfo, NodeInfo]] = ()
        self._batches: dict[int, tuple[PlacementObserver, Batch]] = {}
        self._assumed = frozenset(assumed)
        self._groups = orders.placed
        self._partially_placed = orders.partially_placed
        self._nominations = orders.nominations

    @property
    def uids(self) -> Collection[str]:
        """The uids of the pods."""
        return self._pods.keys()

    def rolled_back(self) -> None:
        """Call it after the first rollback of the transaction."""
        placed: list[tuple[PodInfo, NodeInfo]] = []
        for uid, pod in self._pods.items():
            info = self._cache.placement(uid)
            assert info is not None, f"pod {uid} was put back"
            placed.append((pod, info))
        self._placed = placed

    def suspend(self) -> None:
        """Brings the nodes into the state before the transaction."""
        self._exchange(present=True)
        for key, (before, _) in self._groups.items():
            self._cache.groups.restore_placed(key, before)
        if self._partially_placed is not None:
            self._cache.groups.restore_partially_placed(self._partially_placed)

    def resume(self) -> None:
        """Brings the nodes into the state after it."""
        self._exchange(present=False)
        for key, (_, after) in self._groups.items():
            self._cache.groups.restore_placed(key, after)

    def _exchange(self, *, present: bool) -> None:
        cache = self._cache
        cache.place_or_lift(self._placed, self._assumed, batches=self._batches, present=present)
        for info, other in zip(self._nodes, self._others, strict=True):
            info.exchange(other)
        self._usage = cache.table.exchange_usage(
            self._slots, [info.requested for info in self._nodes], usage=self._usage
        )
        if self._nominations is not None:
            now = cache.nominator.copy()
            cache.nominator.restore(self._nominations)
            self._nominations = now
