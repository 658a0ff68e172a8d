"""The log lines about decisions: one for each from `--v=3`, more from `--v=4`. Callers ask `enabled` first, which costs
nothing below.

Texts that kube-scheduler has, too, are its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from podwright.core.cycle import Decision, Placement, Rejection
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.engine.records.log_fields import V3, V4, V5, fields

log = logging.getLogger(__name__)

NO_FIT = "Unable to schedule pod; no fit; waiting"


def enabled() -> bool:
    """True if decisions are logged at all."""
    return log.isEnabledFor(V3)


def log_decision(decision: Decision, policy: str, seconds: float) -> None:
    """`policy`: its name and generation; `seconds`: how long the decision took."""
    about = {"policy": policy, "ms": round(seconds * 1e3, 3)}
    if isinstance(decision, Placement):
        _log_placement(decision, about)
    elif isinstance(decision, Rejection):
        _log_rejection(decision, about)
    else:
        log.log(V3, "Error scheduling pod; retrying", extra=fields(pod=decision.pod, **about, err=decision.message))


def log_group_decision(decision: GangDecision, policy: str, seconds: float) -> None:
    """A line for each member that gets a node, or one for the group. See `log_decision`."""
    about = {"podGroup": decision.group, "policy": policy, "ms": round(seconds * 1e3, 3)}
    if isinstance(decision, GangPlacement):
        for placement in decision.placements:
            _log_placement(placement, about)
        for rejection in decision.rejections:
            _log_rejection(rejection, about)
    elif isinstance(decision, GangRejection):
        victims = 0 if decision.preemption is None else len(decision.preemption.victims)
        log.log(V3, "Unable to schedule pod group; waiting", extra=fields(**about, victims=victims))
        log.log(V4, "Why the pod group was not placed", extra=fields(podGroup=decision.group, reason=decision.message))
    elif isinstance(decision, GangFault):
        log.log(V3, "Error scheduling pod group; retrying", extra=fields(**about, err=decision.message))


def _log_placement(placement: Placement, about: Mapping[str, Any]) -> None:
    counts = {"evaluatedNodes": placement.evaluated, "feasibleNodes": placement.feasible}
    where = fields(pod=placement.pod, node=placement.node_name, **about, **counts)
    log.log(V3, "Selected node for pod", extra=where)
    if log.isEnabledFor(V5):
        second, points = placement.runner_up or (None, None)
        scores = {"score": placement.score, "runnerUp": second, "runnerUpScore": points}
        known = {key: value for key, value in scores.items() if value is not None}
        rejected = [f"{count} {plugin}" for plugin, count in placement.rejected.items()]
        log.log(V5, "Scores of the pod", extra=fields(pod=placement.pod, **known, rejected=rejected))


def _log_rejection(rejection: Rejection, about: Mapping[str, Any]) -> None:
    nominated = {"nominatedNode": rejection.nominated_node} if rejection.nominated_node else {}
    where = fields(pod=rejection.pod, **about, evaluatedNodes=rejection.diagnosis.total, feasibleNodes=0, **nominated)
    log.log(V3, NO_FIT, extra=where)
    if log.isEnabledFor(V4):
        log.log(V4, "Why no node fits", extra=fields(pod=rejection.pod, reason=rejection.message))
        for plugin, reasons in rejection.diagnosis.reasons_by_plugin().items():
            counted = [f"{count} {reason}" for reason, count in sorted(reasons.items())]
            log.log(V4, "Plugin rejected nodes", extra=fields(pod=rejection.pod, plugin=plugin, reasons=counted))
