"""The rules of a RebalancePolicy, and its plans. A plan holds only names, so it can be kept, sent and printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from hashlib import sha256
from typing import Any, Final, Literal

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import listed

Mode = Literal["Plan", "Enforce", "Stop"]
GoalType = Literal["EmptyNodes", "RepairViolations", "MakeRoom", "FewestFragments"]
HeldBackKind = Literal["node", "pod", "pod group", "domain"]
DAY: Final = 86_400.0
EMPTY_NODES: Final = "EmptyNodes"
REPAIR_VIOLATIONS: Final = "RepairViolations"
MAKE_ROOM: Final = "MakeRoom"
FEWEST_FRAGMENTS: Final = "FewestFragments"
OUT_OF_REACH: Final = "asked for by goal "
"""How the reason begins why something is held back that a goal asks for, but that no moves can give."""
_NO_MOVES: Final = "no moves make room"
"""How that reason ends if the room might be there with other pods on the nodes."""
NO_BUDGET: Final = "considered, but selected by a PodDisruptionBudget that allows no disruption"
OF_SYSTEM: Final = "selected by `match`, but of the system, whose pods never move"
WARNINGS: Final[Mapping[str, str]] = {
    OUT_OF_REACH: "RebalanceGoalOutOfReach",
    NO_BUDGET: "RebalanceWithoutBudget",
    OF_SYSTEM: "RebalanceOfSystemPods",
}
"""By how the reason begins why something is held back: the reason of the event that says so."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time of each of these days in UTC, 0 for Monday. `start`: seconds since midnight. `duration` is at most a
    day.
    """

    days: frozenset[int]
    start: float
    duration: float

    def contains(self, now: float) -> bool:
        """`now`: seconds since the epoch, which was a Thursday."""
        today = int(now // DAY)
        begins = ((day, day * DAY + self.start) for day in (today, today - 1))
        return any((day + 3) % 7 in self.days and 0 <= now - begin < self.duration for day, begin in begins)


@dataclass(frozen=True, slots=True)
class RebalanceRules:
    """`matches`: whether the policy selects a pod, by the pod and the labels of its namespace. `weights`: what an
    emptied node, a repaired pod, room for one more pod, or a device less in fragments is worth, by goal. Times are in
    seconds.
    """

    name: str
    weights: Mapping[GoalType, int]
    matches: Callable[[PodInfo, Mapping[str, str]], bool]
    owners: frozenset[str]
    """The kinds of controllers that create a pod again."""
    max_moves: int
    """The most moves in an hour, and of a plan."""
    room: Mapping[str, int] = field(default_factory=dict)
    """The requests of each pod that room is made for, in the units of a pod's requests; `room_count`: how many pods."""
    room_count: int = 0
    room_key: str = ""
    """The label of nodes whose values are domains: `room_domains` of them have room for `room_count` pods each; "": the
    pods may be anywhere.
    """
    room_domains: int = 1
    empty_count: int = 0
    """How many nodes are kept empty; 0: as many as possible. `empty_offers`: what each of these nodes offers."""
    empty_offers: Mapping[str, int] = field(default_factory=dict)
    gangs: Sequence[str] = ()
    """The pod groups that room is made for while they wait: namespace/name, namespace/*, or *."""
    at_once: int = 1
    """The most moves that have begun and not ended; `at_once_of_owner`, `at_once_of_node`: of pods of one controller,
    and from or to one node.
    """
    at_once_of_owner: int = 1
    at_once_of_node: int = 100
    min_gain: float = 0.0
    """The least gain for each move of a step."""
    cooldown: float = 3600.0
    """How old a pod must be to move. What a controller creates in place of a moved pod is new."""
    hold_for: float = 300.0
    """For how long a place is held, beyond the grace period of the pod that moves."""
    interval: float = 600.0
    """The time between two plans."""
    local_storage: bool = False
    """True if pods with emptyDir or hostPath volumes may move."""
    windows: Sequence[Window] = ()
    """When plans are made and moves begin. None: always."""
    matches_all: bool = True
    """True if the policy does not restrict which pods may move."""
    mode: Mode = "Plan"
    approved_plan: str = ""
    """The hash of the only plan that is carried out; "": all are."""
    uid: str = ""
    generation: int = 0
    created: float = 0.0

    def is_open(self, now: float) -> bool:
        """True if plans are made and moves begin now. `now`: seconds since the epoch."""
        return not self.windows or any(window.contains(now) for window in self.windows)

    def is_in_vain(self, plan: RebalancePlan) -> bool:
        """True if goals ask for more than there can be, so that the plan is shown, but not carried out. Room that no
        moves make may come later, such as when a budget allows more; not if a number of empty nodes is asked for, too,
        which may contradict it.
        """
        reasons = [each.reason for each in plan.held_back if each.reason.startswith(OUT_OF_REACH)]
        return any(self.empty_count or not reason.endswith(_NO_MOVES) for reason in reasons)


@dataclass(frozen=True, slots=True)
class Move:
    """The pod leaves `source`, and the one that its controller creates in its place goes to `target`."""

    uid: str
    pod: str
    """namespace/name"""
    owner: str
    """Kind/name"""
    owner_uid: str
    source: str
    target: str
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """Moves that only together are worth something. `empties`: the nodes that have no pods to move afterwards,
    `makes_room`: the one with room for one more pod, and `domain`: that with room for all of its pods, `gang`: the key
    of the pod group that can start; `mends`: the node whose devices have fewer fragments. All are empty for a repair.
    """

    moves: Sequence[Move]
    gain: int
    empties: Sequence[str] = ()
    makes_room: str = ""
    domain: str = ""
    gang: str = ""
    mends: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    """The nodes of the gang's members, by uid."""

    @property
    def for_gang(self) -> str:
        return f"pod group {self.gang.partition(':')[2]}"

    @property
    def why(self) -> str:
        if self.gang:
            return f"makes room for {self.for_gang}"
        if self.makes_room:
            return f"makes room in {self.domain}" if self.domain else f"makes room on node {self.makes_room}"
        if self.mends:
            return f"leaves fewer fragments of devices on node {self.mends}"
        what = "node" if len(self.empties) == 1 else "nodes"
        return (
            f"empties {what} {listed([*self.empties], 3)}"
            if self.empties
            else "its node does not pass its filters any more"
        )


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The number of nodes or pods (`what`) that stay as they are for this reason."""

    what: HeldBackKind
    count: int
    reason: str

    def __str__(self) -> str:
        return f"{self.count} {self.what}{'' if self.count == 1 else 's'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """The steps of a plan, in order. Each step is proved with all steps before it carried out."""

    policy: str
    steps: Sequence[Step] = ()
    held_back: Sequence[HeldBack] = ()
    exact: str = ""
    """The outcome of the exact search; "" if it did not run."""

    @property
    def moves(self) -> Sequence[Move]:
        return [move for step in self.steps for move in step.moves]

    @property
    def gain(self) -> int:
        return sum(step.gain for step in self.steps)

    @property
    def hash(self) -> str:
        """The same for the same moves of the same pods for the same reasons; "" without moves."""
        steps = [(step.why, [(move.uid, move.source, move.target) for move in step.moves]) for step in self.steps]
        return sha256(json.dumps(steps).encode()).hexdigest()[:16] if steps else ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "hash": self.hash,
            "gain": self.gain,
            "moves": len(self.moves),
            "steps": [{**asdict(step), "why": step.why} for step in self.steps],
            "heldBack": [asdict(each) for each in self.held_back],
            "exact": self.exact,
        }
