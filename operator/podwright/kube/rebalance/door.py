"""The door of RebalancePolicies: while the API server serves them, the engine plans, and moves pods where they say so.

A policy that is invalid plans nothing. The status has the plan and its progress, the number of recent moves, and the
owners whose pods stay, so that another instance can go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Any, Final

from podwright.api.own_objects import accepted, checked_status
from podwright.api.policy_status import ACTIVE, UntimedCondition
from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.raw import Raw, value_at
from podwright.core.objects.times import rfc3339
from podwright.core.rebalance.rules import WARNINGS
from podwright.engine.rebalance.rebalancing import Progress
from podwright.engine.rebalance.recent import RecentMoves
from podwright.kube.kinds import REBALANCE_POLICY
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.write.object_status import SeenObject

SHOWN_MOVES: Final = 20
SHOWN_REASONS: Final = 16
MAX_SPANS: Final = 16
MAX_SPARED: Final = 64
MAX_UID: Final = 253
_ACTIVE: Final = {
    "Plan": UntimedCondition(ACTIVE, True, "Planning", "The policy plans, and moves nothing."),
    "Enforce": UntimedCondition(ACTIVE, True, "Enforcing", "The moves of its plans are made."),
    "Stop": UntimedCondition(ACTIVE, False, "Stopped", "Its mode is Stop."),
    "Closed": UntimedCondition(ACTIVE, False, "OutsideWindow", "No window of the policy is open now."),
}


class RebalanceDoor(CheckedDoor):
    """See the module."""

    resource = REBALANCE_POLICY
    about = "rebalance policies"
    noun = "rebalance policy"
    refused = "RebalancePolicyNotAccepted"

    def take(self, _name: str, raw: Raw) -> None:
        self._engine.rebalancing.set(parse_rebalance_policy(raw), recent_of(raw.get("status")))

    def remove(self, name: str) -> None:
        self._engine.rebalancing.remove(name)

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        known = self._engine.rebalancing.known.get(name)
        if known is None:
            active = UntimedCondition(ACTIVE, False, "NotAccepted", "The policy is not valid, and plans nothing.")
        elif conflict := self._engine.rebalancing.conflict(name):
            active = UntimedCondition(ACTIVE, False, "Conflict", f"The policy moves nothing: {conflict}.")
        else:
            active = _ACTIVE[self._engine.rebalancing.state_of(known.rules)]
        found = (accepted("policy", seen.problem), active)
        status = checked_status(found, generation=seen.generation, previous=seen.status, now=now)
        # An invalid policy keeps what it has counted, for the time when it is valid again.
        if spans := (recent_of(seen.status) if known is None else known.recent).spans(self._clock()):
            status["recentMoves"] = sum(moves for _, moves in spans)
            status["recent"] = [{"since": rfc3339(since), "moves": moves} for since, moves in spans]
        if spared := [each for each in self._engine.rebalancing.moves.spared().items() if len(each[0]) <= MAX_UID]:
            last = nlargest(MAX_SPARED, spared, key=lambda each: each[1])
            status["spared"] = [{"uid": uid, "until": rfc3339(until)} for uid, until in last]
        if known is not None and known.progress is not None:
            status["plan"] = _shown(known.progress)
        return status

    def warnings_of(self, status: Raw) -> Mapping[str, str]:
        held = status.get("plan", {}).get("heldBack", ())
        found = {reason: [each for each in held if f": {text}" in each] for text, reason in WARNINGS.items()}
        return {reason: "; ".join(texts) for reason, texts in found.items() if texts}

    def problem_of(self, name: str, seen: SeenObject, status: Raw) -> str:
        return super().problem_of(name, seen, status) or self._engine.rebalancing.conflict(name)


def _shown(progress: Progress) -> Mapping[str, Any]:
    plan = progress.plan
    moves = plan.moves
    return {
        "time": rfc3339(progress.time),
        "hash": plan.hash,
        "gain": plan.gain,
        "gained": progress.gained,
        "empties": sum(len(step.empties) for step in plan.steps),
        "moves": len(moves),
        "moved": len(progress.moved),
        "first": [{"pod": move.pod, "source": move.source, "target": move.target} for move in moves[:SHOWN_MOVES]],
        "heldBack": [str(each) for each in plan.held_back[:SHOWN_REASONS]],
        "exact": plan.exact[:1024],
        "ended": progress.ended[:1024],
    }


def recent_of(status: object) -> RecentMoves:
    """The moves that another instance has made, as the status says it. Anybody may have written it."""
    return RecentMoves(
        _read(status, "recent", MAX_SPANS, lambda span: (_time(span.get("since")), int(span.get("moves") or 0))),
        _read(status, "spared", MAX_SPARED, lambda each: (str(each["uid"])[:MAX_UID], _time(each.get("until")))),
    )


def _read(status: object, field: str, most: int, read: Callable[[Any], Any]) -> list[Any]:
    listed, found = value_at(status, field), []
    for each in listed[:most] if isinstance(listed, list) else ():
        try:
            found.append(read(each))
        except (InvalidObjectError, AttributeError, KeyError, TypeError, ValueError):
            continue
    return found


def _time(value: object) -> float:
    return parse_time(value, "status") or 0.0
