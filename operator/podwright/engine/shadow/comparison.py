"""Compares what a policy decides about a pod with the node that the pod has got. The core decides; nothing is changed.

The policy decides on the state of the cluster in which the pod had no node yet (`on_former_state`). For a pod with
volumes or devices, which the other scheduler has bound together with the pod, it decides on the state in which the pod
appeared (`Outlook`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

import numpy as np

from podwright.core.cycle import Fault, Placement, Rejection, Search, always_first, find_feasible, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, CycleState, Slots, WholeNumbers
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction


class ComparisonOutcome(Enum):
    """The outcome of a comparison: see `agrees` and `differs`. TIED and FAILED count neither way."""

    AGREED = "agreed"
    """The policy would have chosen the same node, and gives no other node the same score."""
    WAITS_TOO = "waitsToo"
    """The other scheduler finds no node, and neither does the policy."""
    TIED = "tied"
    """The policy gives several nodes the best score, and that node is one of them."""
    LOWER = "lower"
    """The policy gives another node a better score."""
    REJECTED = "rejected"
    """The policy rejects that node, and would have chosen another."""
    UNPLACED = "unplaced"
    """The policy finds no node for the pod."""
    PLACEABLE = "placeable"
    """The other scheduler finds no node, and the policy would place the pod."""
    FAILED = "failed"
    """A plugin of the policy has failed."""

    @property
    def agrees(self) -> bool:
        return self in (ComparisonOutcome.AGREED, ComparisonOutcome.WAITS_TOO)

    @property
    def differs(self) -> bool:
        return self in (
            ComparisonOutcome.LOWER,
            ComparisonOutcome.REJECTED,
            ComparisonOutcome.UNPLACED,
            ComparisonOutcome.PLACEABLE,
        )


@dataclass(frozen=True, slots=True)
class ScorePair:
    """The normalised scores that a plugin gives the policy's node and the other one."""

    plugin: str
    weight: int
    ours: int
    theirs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowComparison:
    """`node`, `score`: what the policy chooses, "" and None if nothing, or if it need not score. `why`: why it chooses
    no node.

    `their_score`: of the other node; `their_why`: why the policy does not want it; `evaluated`, `feasible`: numbers of
    nodes.
    """

    outcome: ComparisonOutcome
    node: str = ""
    score: int | None = None
    their_score: int | None = None
    why: str = ""
    their_why: str = ""
    plugins: tuple[ScorePair, ...] = ()
    evaluated: int = 0
    feasible: int = 0


def waiting_again(pod: PodInfo) -> PodInfo:
    """The pod as it was before it got its node."""
    if not pod.node_name and not pod.nominated_node_name:
        return pod
    return replace(pod, node_name="", nominated_node_name="")


def on_former_state(
    framework: Framework, cache: Cache, pod: PodInfo, theirs: str, later: Iterable[str] = ()
) -> ShadowComparison:
    """Compares the policy's decision with the node `theirs`, on the state before this pod and the pods `later` (uids)
    were placed.
    """
    with CacheTransaction(cache) as transaction:
        placed = ((uid, cache.placement(uid)) for uid in (pod.uid, *later))
        transaction.remove([info.pods[uid] for uid, info in placed if info is not None and info.node is not None])
        return compare(framework, cache, waiting_again(pod), theirs)


def compare(framework: Framework, cache: Cache, pod: PodInfo, theirs: str) -> ShadowComparison:
    """Compares the policy's decision about this pod, which has no node, with the node `theirs`; "": the other scheduler
    finds none.
    """
    decision = schedule(framework, cache, pod, always_first, preempt=False)
    if isinstance(decision, Fault):
        return ShadowComparison(outcome=ComparisonOutcome.FAILED, why=decision.message)
    if isinstance(decision, Rejection):
        outcome = ComparisonOutcome.UNPLACED if theirs else ComparisonOutcome.WAITS_TOO
        there = cache.present(theirs)
        status = None if there is None else decision.diagnosis.status_of(there.slot)
        return ShadowComparison(
            outcome=outcome,
            why=decision.filter_message,
            their_why="" if status is None else f"{status.plugin}: {status.message}",
            evaluated=decision.diagnosis.total,
        )
    found = ShadowComparison(
        outcome=ComparisonOutcome.AGREED if theirs else ComparisonOutcome.PLACEABLE,
        node=decision.node_name,
        score=decision.score,
        evaluated=decision.evaluated,
        feasible=decision.feasible,
    )
    if not theirs:
        return found
    if decision.node_name == theirs:
        return replace(found, outcome=ComparisonOutcome.TIED) if _has_equals(decision) else found
    try:
        return _against(framework, cache, pod, found, theirs)
    except PluginError as error:
        return ShadowComparison(outcome=ComparisonOutcome.FAILED, why=str(error))


def compare_unplaced(framework: Framework, cache: Cache, pod: PodInfo) -> ShadowComparison:
    """Compares the policy's decision about a pod for which the other scheduler finds no node."""
    return compare(framework, cache, waiting_again(pod), "")


def _has_equals(placement: Placement) -> bool:
    return placement.runner_up is not None and placement.runner_up[1] == placement.score


def _against(
    framework: Framework, cache: Cache, pod: PodInfo, found: ShadowComparison, theirs: str
) -> ShadowComparison:
    """Why the policy prefers its own node, if it does. Raises PluginError."""
    there = cache.present(theirs)
    if there is None:
        return replace(found, outcome=ComparisonOutcome.REJECTED, their_why="the node does not exist")
    state = CycleState()
    search = find_feasible(framework, cache, pod, state, take_nominated=False)
    where = np.flatnonzero(search.feasible.slots == there.slot)
    if not len(where):
        status = search.diagnosis.status_of(there.slot)
        why = "" if status is None else f"{status.plugin}: {status.message}"
        return replace(found, outcome=ComparisonOutcome.REJECTED, their_why=why)
    details: dict[str, WholeNumbers] = {}
    total = framework.score(state, pod, search.feasible, details)
    own, other = int(np.argmax(total)), int(where[0])
    if total[other] == total[own]:
        return replace(found, outcome=ComparisonOutcome.TIED, their_score=int(total[other]))
    pairs = [
        ScorePair(plugin, framework.weights[plugin], int(scores[own]), int(scores[other]))
        for plugin, scores in details.items()
    ]
    pairs.sort(key=lambda pair: (-abs(pair.weight * (pair.ours - pair.theirs)), pair.plugin))
    return replace(
        found,
        outcome=ComparisonOutcome.LOWER,
        node=cache.table.names[int(search.feasible.slots[own])],
        score=int(total[own]),
        their_score=int(total[other]),
        plugins=tuple(pairs),
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """A policy's decision about a pod when it appeared, to be compared with a node that is not known yet.

    `feasible`, `best`: bit masks of rows of the node table, packed: an eighth of a byte for each node. `rows`: how many
    rows there were.
    """

    found: ShadowComparison
    feasible: bytes
    best: bytes
    several: bool
    """True if several nodes are the best."""

    @staticmethod
    def of(framework: Framework, cache: Cache, pod: PodInfo) -> Outlook:
        """Decides on the present state."""
        state = CycleState()
        try:
            search = find_feasible(framework, cache, waiting_again(pod), state, take_nominated=False)
            if not len(search.feasible):
                return Outlook(compare_unplaced(framework, cache, pod), b"", b"", several=False)
            total = framework.score(state, pod, search.feasible) if len(search.feasible) > 1 else None
        except PluginError as error:
            return Outlook(ShadowComparison(outcome=ComparisonOutcome.FAILED, why=str(error)), b"", b"", several=False)
        return _outlook(cache, search, total)

    def against(self, slot: int) -> ShadowComparison:
        """The comparison with the node in this row, which must be the node that it was then."""
        if not self.found.node:
            failed = self.found.outcome is ComparisonOutcome.FAILED
            return self.found if failed else replace(self.found, outcome=ComparisonOutcome.UNPLACED)
        if _bit(self.best, slot):
            return replace(self.found, outcome=ComparisonOutcome.TIED if self.several else ComparisonOutcome.AGREED)
        if _bit(self.feasible, slot):
            return replace(
                self.found, outcome=ComparisonOutcome.LOWER, their_why="it scored less when the pod appeared"
            )
        return replace(
            self.found, outcome=ComparisonOutcome.REJECTED, their_why="the policy rejected it when the pod appeared"
        )


def _outlook(cache: Cache, search: Search, total: WholeNumbers | None) -> Outlook:
    slots = search.feasible.slots
    rows = np.zeros(cache.table.size, np.bool_)
    rows[slots] = True
    best = slots if total is None else slots[total == total.max()]
    found = ShadowComparison(
        outcome=ComparisonOutcome.PLACEABLE,
        node=cache.table.names[int(best[0])],
        score=None if total is None else int(total.max()),
        evaluated=search.evaluated,
        feasible=len(slots),
    )
    return Outlook(found, _packed(rows), _packed(_only(rows, best)), several=len(best) > 1)


def _only(rows: Bools, slots: Slots) -> Bools:
    chosen: Bools = np.zeros_like(rows)
    chosen[slots] = True
    return chosen


def _packed(rows: Bools) -> bytes:
    return np.packbits(rows).tobytes()


def _bit(packed: bytes, slot: int) -> bool:
    byte, bit = divmod(slot, 8)
    return byte < len(packed) and bool(packed[byte] & (0x80 >> bit))
