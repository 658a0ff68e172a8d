"""The door of RebalancePolicies: while the API server serves them, the engine plans, and moves pods where they say so.

A policy that is invalid plans nothing. The status says which plan there is and what has become of it, and how many
moves there were lately, so that another instance goes on counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.api.policy_status import ACCEPTED, ACTIVE, UntimedCondition, conditions_by_type, timed
from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.engine.engine import Engine
from podwright.engine.rebalance.rebalancing import Progress
from podwright.engine.rebalance.recent import RecentMoves
from podwright.kube.client.http import Http
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import REBALANCE_POLICY
from podwright.kube.write.object_status import ObjectStatuses, SeenObject
from podwright.kube.write.own_objects import OwnDoor, OwnSink

Raw = Mapping[str, Any]

SHOWN_MOVES: Final = 20
SHOWN_REASONS: Final = 16
MAX_SPANS: Final = 16
_ACTIVE: Final = {
    "Plan": UntimedCondition(ACTIVE, True, "Planning", "The policy plans, and moves nothing."),
    "Enforce": UntimedCondition(ACTIVE, True, "Enforcing", "The moves of its plans are made."),
    "Stop": UntimedCondition(ACTIVE, False, "Stopped", "Its mode is Stop."),
}


_OUTSIDE: Final = UntimedCondition(ACTIVE, False, "OutsideWindow", "No window of the policy is open now.")


class RebalanceStatuses(ObjectStatuses):
    """Writes the statuses of RebalancePolicies."""

    resource = REBALANCE_POLICY
    about = "rebalance policy"
    refused = "RebalancePolicyNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self._rebalancing = engine.rebalancing

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        before, problem, conflict = conditions_by_type(seen.status), seen.problem, self._rebalancing.conflict(name)
        rules, progress = self._rebalancing.get(name), self._rebalancing.progress(name)
        if rules is None:
            active = UntimedCondition(ACTIVE, False, "NotAccepted", "The policy is not valid, and plans nothing.")
        elif conflict:
            active = UntimedCondition(ACTIVE, False, "Conflict", f"The policy moves nothing: {conflict}.")
        elif rules.mode != "Stop" and not rules.is_open(self._clock()):
            active = _OUTSIDE
        else:
            active = _ACTIVE[rules.mode]
        accepted = UntimedCondition(
            ACCEPTED, not problem, "Invalid" if problem else "Accepted", problem or "The policy is valid."
        )
        status: dict[str, Any] = {
            "observedGeneration": seen.generation,
            "conditions": [timed(each, before.get(each.type), seen.generation, now) for each in (accepted, active)],
        }
        # An invalid policy keeps what it has counted, for the time when it is valid again.
        if spans := recent_of(seen.status).spans(self._clock()) if rules is None else self._rebalancing.recent(name):
            status["recentMoves"] = sum(moves for _, moves in spans)
            status["recent"] = [{"since": rfc3339(since), "moves": moves} for since, moves in spans]
        if progress is not None:
            status["plan"] = _shown(progress)
        return status

    def problem_of(self, name: str, seen: SeenObject, status: Raw) -> str:
        return super().problem_of(name, seen, status) or self._rebalancing.conflict(name)


def _shown(progress: Progress) -> Mapping[str, Any]:
    plan = progress.plan
    moves = plan.moves
    return {
        "time": rfc3339(progress.time),
        "gain": plan.gain,
        "gained": progress.gained,
        "empties": sum(len(step.empties) for step in plan.steps),
        "moves": len(moves),
        "moved": progress.moved,
        "first": [{"pod": move.pod, "source": move.source, "target": move.target} for move in moves[:SHOWN_MOVES]],
        "heldBack": [str(each) for each in plan.held_back[:SHOWN_REASONS]],
        "ended": progress.ended[:1024],
    }


def recent_of(status: object) -> RecentMoves:
    """The moves that another instance has made, as the status says it. Anybody may have written it."""
    spans = status.get("recent") if isinstance(status, Mapping) else None
    found = []
    for span in spans[:MAX_SPANS] if isinstance(spans, list) else ():
        try:
            found.append((parse_time(span.get("since"), "status.recent.since") or 0.0, int(span.get("moves") or 0)))
        except (InvalidObjectError, AttributeError, TypeError, ValueError):
            continue
    return RecentMoves(found)


class RebalanceSink(OwnSink):
    """Takes RebalancePolicies into the engine."""

    def __init__(self, engine: Engine, statuses: RebalanceStatuses) -> None:
        super().__init__(engine.invalid_objects, statuses)
        self._rebalancing = engine.rebalancing

    def take(self, _name: str, raw: Raw) -> None:
        self._rebalancing.set(parse_rebalance_policy(raw), recent_of(raw.get("status")))

    def remove(self, name: str) -> None:
        self._rebalancing.remove(name)


def rebalance_door(engine: Engine, statuses: RebalanceStatuses) -> OwnDoor:
    return OwnDoor(REBALANCE_POLICY, "rebalance policies", sink=lambda: RebalanceSink(engine, statuses))
