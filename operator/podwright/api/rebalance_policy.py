"""RebalancePolicy v1alpha1: which pods may move to other nodes, what for, and how many.

Each field is declared once, in the dataclasses below: `parse_rebalance_policy` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. core/rebalance makes the plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from podwright.api.own_objects import CheckedStatus, conditions, count, read_object
from podwright.api.policy_status import Condition
from podwright.api.scheduler_policy import identity_of
from podwright.api.scheduling_queue import DURATION, QUANTITY, QuotaAmount
from podwright.api.spec.match import CompiledMatch, Match, Subject
from podwright.core.framework.validation import SET, Problem, declared, key_path, unique_by, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.quantity import NANO, parse_exact_quantity
from podwright.core.objects.resources import CPU, is_qualified_name
from podwright.core.rebalance.movable import SYSTEM_NAMESPACES
from podwright.core.rebalance.rules import DAY, EMPTY_NODES, MAKE_ROOM, GoalType, Mode, RebalanceRules, Window

REBALANCE_KIND: Final = "RebalancePolicy"
REBALANCE_PLURAL: Final = "rebalancepolicies"
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_MOST: Final = 1 << 62
"""The largest amount of a resource, in the core's unit."""
_OWNED_BY_NODE: Final = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class RebalanceGoal:
    type: GoalType = declared(
        "EmptyNodes: as many nodes as possible, or `count` of them, have no pods but those of DaemonSets. "
        "RepairViolations: pods that do not pass their filters on their nodes any more get others. MakeRoom: pods of "
        "the size `requests` find room, or pod groups that wait. FewestFragments: fewer free parts of shared devices "
        "are of no use to typical pods, by the measure of strategy LeastFragmentation."
    )
    weight: int = whole_number(
        "What an emptied node, a repaired pod, room for one more pod, or one device less in fragments is worth.",
        1,
        1_000_000,
        default=1,
    )
    requests: Mapping[str, QuotaAmount] = declared(
        "With MakeRoom: what each pod requests, on one node, by resource as in a container's requests. With "
        "EmptyNodes: what a node that counts offers. Quantities.",
        default_factory=dict,
        maxProperties=16,
        additionalProperties=QUANTITY,
    )
    count: int | None = whole_number(
        "With MakeRoom: for how many such pods; 1 by default. With EmptyNodes: how many nodes are kept free; as many "
        "as possible by default.",
        1,
        10_000,
        default=None,
    )
    topology_key: str = declared(
        "With MakeRoom and requests: the node label whose values are domains, such as racks. Each of `domains` has "
        "room for `count` pods.",
        default="",
        maxLength=317,
    )
    domains: int | None = whole_number(
        "With topologyKey: in how many domains there is room; 1 by default.", 1, 1_000, default=None
    )
    gangs: tuple[str, ...] = declared(
        "With MakeRoom, instead of requests: the pod groups that get room while they wait for it. Each is "
        "namespace/name, namespace/* for all of a namespace, or * for all.",
        default=(),
        maxItems=64,
        items={"maxLength": 317, "pattern": r"^(\*|[a-z0-9.-]+/(\*|[a-z0-9.-]+))$"},
        **SET,
    )

    @property
    def amounts(self) -> Mapping[str, int]:
        """The requests in the core's units."""
        return {name: _amount(name, amount) for name, amount in self.requests.items()}

    @property
    def most_of_a_move(self) -> int:
        """The most that a move may be worth for this goal; 0: it is not known."""
        if self.type == EMPTY_NODES:
            return self.weight
        return self.weight * (self.count or 1) * (self.domains or 1) if self.type == MAKE_ROOM and self.requests else 0

    def problems(self, where: str) -> Iterator[Problem]:
        if self.type == MAKE_ROOM and bool(self.requests) == bool(self.gangs):
            yield f"{where}.requests", "a goal of the type MakeRoom needs either requests or gangs"
        if self.gangs and self.type != MAKE_ROOM:
            yield f"{where}.gangs", "only a goal of the type MakeRoom has them"
        for name, given in (("requests", self.requests), ("count", self.count)):
            if given and self.type not in (MAKE_ROOM, EMPTY_NODES):
                yield f"{where}.{name}", "only a goal of the type MakeRoom or EmptyNodes has them"
        if self.topology_key and not (self.type == MAKE_ROOM and self.requests):
            yield f"{where}.topologyKey", "only a goal of the type MakeRoom with requests has it"
        elif self.topology_key and not is_qualified_name(self.topology_key):
            yield f"{where}.topologyKey", f"{self.topology_key!r} is not a label key"
        if self.domains is not None and not self.topology_key:
            yield f"{where}.domains", "needs a topologyKey"
        for name, amount in self.requests.items():
            if not is_qualified_name(name):
                yield f"{where}.requests{key_path(name)}", "is not the name of a resource"
            elif not 0 < _amount(name, amount) <= _MOST:
                size = "small" if _amount(name, amount) <= 0 else "large"
                yield f"{where}.requests{key_path(name)}", f"{amount!r} is too {size}"


def _amount(resource: str, amount: QuotaAmount) -> int:
    """In the core's unit."""
    return parse_exact_quantity(amount, "") // (NANO // 1000 if resource == CPU else NANO)


@dataclass(frozen=True, slots=True)
class RebalanceWindow:
    start: str = declared(
        "When it opens, as hours and minutes in UTC: 22:00.", maxLength=5, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
    )
    duration: str = declared("For how long it is open: from 1m to 24h. A duration.", **DURATION)
    days: tuple[Day, ...] = declared(
        "On which days it opens, in UTC. Not given: each day.", default=get_args(Day), minItems=1, maxItems=7, **SET
    )

    def window(self) -> Window:
        """Returns the core's form of the window."""
        hours, minutes = map(int, self.start.split(":"))
        days = frozenset(map(get_args(Day).index, self.days))
        return Window(days, hours * 3600.0 + minutes * 60.0, parse_duration(self.duration))


@dataclass(frozen=True, slots=True)
class RebalancePolicySpec:
    goals: tuple[RebalanceGoal, ...] = declared("What pods are moved for.", minItems=1, maxItems=8, **unique_by("type"))
    mode: Mode = declared(
        "Plan: the status says which moves there would be. Enforce: pods move. Stop: no plans, and no move begins.",
        default="Plan",
    )
    approved_plan: str = declared(
        "With mode Enforce: the hash of the only plan that is carried out, which is status.plan.hash. Not given: all "
        "plans are.",
        default="",
        maxLength=64,
    )
    match: Match | None = declared(
        "The pods that may move. All that is given must hold. Not given: all. Pods of the system's namespaces, and "
        "system-critical ones, never move.",
        default=None,
    )
    owners: tuple[str, ...] = declared(
        "The kinds of the controllers of these pods. Only controllers that create a deleted pod again belong here.",
        default=("ReplicaSet", "StatefulSet", "ReplicationController"),
        minItems=1,
        maxItems=32,
        items={"minLength": 1, "maxLength": 63},
        **SET,
    )
    move_local_storage: bool = declared(
        "Whether pods with emptyDir or hostPath volumes may move. What these hold stays behind, or is deleted.",
        default=False,
    )
    max_moves: int = whole_number("The most moves in an hour.", 1, 1_000, default=100)
    max_moves_at_once: int = whole_number("The most moves that have begun and not ended.", 1, 100, default=1)
    max_moves_at_once_per_owner: int = whole_number(
        "The most moves of pods of one controller that have begun and not ended.", 1, 100, default=1
    )
    max_moves_at_once_per_node: int = whole_number(
        "The most moves from or to one node that have begun and not ended.", 1, 100, default=100
    )
    min_gain: QuotaAmount = declared(
        "The least gain for each move. A quantity: with 50m, and a weight of 1, a node is worth 20 moves.",
        default="50m",
        **QUANTITY,
    )
    cooldown: str = declared(
        "How old a pod must be to move. A pod that is created in place of a moved one is new. A duration.",
        default="1h",
        **DURATION,
    )
    hold_for: str = declared(
        "For how long, beyond its grace period, the place of a moved pod is held for the one that its controller "
        "creates. A duration from 1s to 24h.",
        default="5m",
        **DURATION,
    )
    interval: str = declared("The time between two plans. A duration of at least 1s.", default="10m", **DURATION)

    windows: tuple[RebalanceWindow, ...] = declared(
        "When plans are made and moves begin. Not given: at any time.", default=(), maxItems=16
    )

    def validate(self, where: str) -> Iterator[Problem]:
        for number, window in enumerate(self.windows):
            if not 60 <= parse_duration(window.duration) <= DAY:
                yield f"{where}.windows[{number}].duration", f"{window.duration} is not between 1m and 24h"
        for number, goal in enumerate(self.goals):
            yield from goal.problems(f"{where}.goals[{number}]")
        for name in self.match.namespaces if self.match is not None else ():
            if name in SYSTEM_NAMESPACES:
                yield f"{where}.match.namespaces", f"{name} is a namespace of the system, whose pods never move"
        for kind in self.owners:
            if kind in _OWNED_BY_NODE:
                yield f"{where}.owners", f"pods of a {kind} belong to their nodes"

        for name, duration in (("holdFor", self.hold_for), ("interval", self.interval)):
            if parse_duration(duration) < 1:
                yield f"{where}.{name}", f"{duration} is too short; it must be at least 1s"
        if all(goal.most_of_a_move for goal in self.goals):
            most = sum(goal.most_of_a_move for goal in self.goals)
            if self._least > most:
                yield f"{where}.minGain", f"no move for these goals can gain {self.min_gain}; at most it is {most}"
        if parse_duration(self.hold_for) > DAY:
            yield f"{where}.holdFor", f"{self.hold_for} is too long; it must be at most 24h"

    @property
    def _least(self) -> float:
        return parse_exact_quantity(self.min_gain, "spec.minGain") / NANO

    def rules(self, name: str, uid: str, generation: int, created: float) -> RebalanceRules:
        """The policy as the core has it. `created`: seconds since the epoch."""
        match = CompiledMatch.of(self.match or Match())
        goals = {goal.type: goal for goal in self.goals}
        room, empty = goals.get(MAKE_ROOM), goals.get(EMPTY_NODES)
        return RebalanceRules(
            name=name,
            uid=uid,
            generation=generation,
            created=created,
            mode=self.mode,
            approved_plan=self.approved_plan,
            weights={goal.type: goal.weight for goal in self.goals},
            matches=lambda pod, labels: match.matches(Subject.of(pod, labels)),
            matches_all=match.all,
            owners=frozenset(self.owners),
            local_storage=self.move_local_storage,
            room=room.amounts if room else {},
            room_count=(room.count or 1) if room else 0,
            room_key=room.topology_key if room else "",
            room_domains=(room.domains or 1) if room else 1,
            empty_count=(empty.count or 0) if empty else 0,
            empty_offers=empty.amounts if empty else {},
            gangs=room.gangs if room else (),
            max_moves=self.max_moves,
            at_once=self.max_moves_at_once,
            at_once_of_owner=self.max_moves_at_once_per_owner,
            at_once_of_node=self.max_moves_at_once_per_node,
            min_gain=self._least,
            cooldown=parse_duration(self.cooldown),
            hold_for=parse_duration(self.hold_for),
            interval=parse_duration(self.interval),
            windows=[window.window() for window in self.windows],
        )


def parse_rebalance_policy(raw: Mapping[str, Any]) -> RebalanceRules:
    """Decodes a RebalancePolicy object. Raises InvalidObjectError naming the policy and every field that is wrong."""
    uid = identity_of(raw)[1]
    return read_object(
        raw,
        REBALANCE_KIND,
        RebalancePolicySpec,
        lambda found: found.spec.rules(found.name, uid, found.generation, found.created),
    )


@dataclass(frozen=True, slots=True)
class RebalanceCondition(Condition):
    type: str = declared("Accepted (the policy is valid) or Active (it plans).", maxLength=316)
    reason: str = declared(
        "Accepted: Accepted, Invalid. Active: Planning, Enforcing, Stopped, OutsideWindow, Conflict, NotAccepted.",
        maxLength=1024,
    )


@dataclass(frozen=True, slots=True)
class PlannedMove:
    pod: str = declared("namespace/name.", maxLength=512)
    source: str = declared("Its node.", maxLength=253)
    target: str = declared("The node that is to have it.", maxLength=253)


@dataclass(frozen=True, slots=True)
class PlanStatus:
    time: str = declared("When it was made. An RFC 3339 time.", default="", maxLength=32)
    hash: str = declared("Names its moves, for spec.approvedPlan; empty without moves.", default="", maxLength=64)
    gain: int = count("What it is worth, by the weights of the goals.", "int64")
    gained: int = count("What it has been worth so far.", "int64")
    empties: int = count("How many nodes it empties.")
    moves: int = count("How many pods it moves.")
    moved: int = count("How many of its pods have moved.")
    first: tuple[PlannedMove, ...] = declared(
        "The first moves of the plan.", default=(), maxItems=20, **unique_by("pod")
    )
    held_back: tuple[str, ...] = declared(
        "What else it might do, and why it does not.", default=(), maxItems=16, items={"maxLength": 1024}, **SET
    )
    exact: str = declared("What became of the exact search; empty if there was none.", default="", maxLength=1024)
    ended: str = declared("Why it ended before all was moved; empty if it did not.", default="", maxLength=1024)


@dataclass(frozen=True, slots=True)
class RecentSpan:
    since: str = declared("When the span began. An RFC 3339 time.", maxLength=32)
    moves: int = count("How many moves began in it.")


@dataclass(frozen=True, slots=True)
class Spared:
    uid: str = declared("Of a controller, or of a pod.", maxLength=253)
    until: str = declared("An RFC 3339 time.", maxLength=32)


@dataclass(frozen=True, slots=True)
class RebalanceStatus(CheckedStatus):
    conditions: tuple[RebalanceCondition, ...] = conditions()
    plan: PlanStatus | None = declared("The last plan.", default=None)
    recent_moves: int = count("How many moves count for maxMoves now.")
    recent: tuple[RecentSpan, ...] = declared(
        "The moves that count for maxMoves, by spans of five minutes. A span counts until an hour after its end.",
        default=(),
        maxItems=16,
    )
    spared: tuple[Spared, ...] = declared(
        "Whose pods stay, because moves failed: controllers that did not create a pod again in time, and pods whose "
        "eviction was refused. Of more, those that stay longest.",
        default=(),
        maxItems=64,
        **unique_by("uid"),
    )
