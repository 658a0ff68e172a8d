"""Asks a running operator about a pod at /debug/explain, with the caller's own credentials, and adds the answer to an
explanation.

The operator knows what no snapshot shows: the pod's place in the queue, and its last decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.core.objects.times import rfc3339
from podwright.core.objects.wording import counted
from podwright.simulator.explain.results import Cause, Explanation, PodState, PolicyRef, QueuePlace, Recorded, Rejected
from podwright.simulator.live import LiveConnection
from podwright.simulator.operator_client import Answer, ask

PATH: Final = "/debug/explain"


def ask_about(url: str, namespace: str, name: str, connection: LiveConnection, *, ca_file: str | None = None) -> Answer:
    """The operator's answer about a pod; empty if it knows nothing of it. Raises OperatorError. See `ask`."""
    return ask(url, PATH, {"namespace": namespace, "pod": name}, connection, ca_file=ca_file)


# The answer


def joined(found: Explanation, answer: Answer) -> Explanation:
    """The explanation with the operator's answer."""
    queue = queue_place(answer)
    decisions = tuple(_decisions(answer)) or found.decisions
    found = replace(found, queue=queue, decisions=decisions)
    if queue is None:
        if found.state in (PodState.PENDING, PodState.FITS) and not decisions:
            return replace(found, notes=(*found.notes, "the operator does not know the pod"))
        return found
    cause = _cause_in_queue(found, queue)
    return found if cause is None else replace(found, causes=(cause, *found.causes))


def from_answer(answer: Answer, namespace: str, name: str) -> Explanation:
    """An explanation from the operator's answer alone, for callers who may not read the cluster."""
    decisions = tuple(_decisions(answer))
    last = decisions[0] if decisions else None
    queue = queue_place(answer)
    placed = last is not None and last.outcome == "Placed" and queue is None
    state = PodState.PLACED if placed else PodState.GATED if queue and queue.place == "gated" else PodState.PENDING
    causes = []
    if last is not None and not placed:
        causes.append(Cause(reason=last.outcome, text=last.message))
    elif queue is not None and queue.workload:
        causes.append(_in_workload(queue))
    elif queue is not None and queue.gated_by:
        causes.append(
            Cause(reason="Gated", text=f"plugin {queue.gated_by} keeps it out of the queue", plugin=queue.gated_by)
        )
    policy = answer.get("policy")
    return Explanation(
        kind="Pod",
        name=f"{namespace}/{name}",
        state=state,
        causes=tuple(causes),
        policy=_policy(policy) if isinstance(policy, Mapping) else last.policy if last else None,
        node=last.node if last and placed else "",
        nodes=last.evaluated if last else 0,
        message=last.message if last else "",
        rejections=tuple(_rejections(last)) if last and not placed else (),
        queue=queue,
        decisions=decisions,
        notes=("this is what the operator says; what would help is only searched by those who may read the cluster",),
    )


def queue_place(answer: Answer) -> QueuePlace | None:
    """The pod's place in the operator's queue; None if it is not in it."""
    raw = answer.get("queue")
    if not isinstance(raw, Mapping):
        return None
    return QueuePlace(
        place=str(raw.get("place") or ""),
        attempts=int(raw.get("attempts") or 0),
        waited=float(raw.get("waited") or 0.0),
        tried_in=None if raw.get("triedIn") is None else float(raw["triedIn"]),
        ahead=None if raw.get("ahead") is None else int(raw["ahead"]),
        rejected_by=tuple(map(str, raw.get("rejectedBy") or ())),
        gated_by=str(raw.get("gatedBy") or ""),
        costly=bool(raw.get("costly")),
        workload=str(raw.get("workload") or ""),
    )


def _decisions(answer: Answer) -> Sequence[Recorded]:
    return [_recorded(each) for each in answer.get("decisions") or () if isinstance(each, Mapping)]


def _recorded(raw: Mapping[str, Any]) -> Recorded:
    policy, at = raw.get("policy"), raw.get("at")
    return Recorded(
        outcome=str(raw.get("outcome") or ""),
        policy=_policy(policy) if isinstance(policy, Mapping) else None,
        node=str(raw.get("node") or ""),
        score=raw.get("score"),
        runner_up=str(raw.get("runnerUp") or ""),
        runner_up_score=raw.get("runnerUpScore"),
        evaluated=int(raw.get("evaluated") or 0),
        feasible=int(raw.get("feasible") or 0),
        rejected=raw.get("rejected"),
        message=str(raw.get("message") or ""),
        at=rfc3339(at) if isinstance(at, int | float) else "",
        reasons=raw.get("reasons"),
        nominated=str(raw.get("nominated") or ""),
        victims=tuple(map(str, raw.get("victims") or ())),
    )


def _policy(raw: Mapping[str, Any]) -> PolicyRef:
    return PolicyRef(name=str(raw.get("name") or ""), generation=int(raw.get("generation") or 0))


def _rejections(decision: Recorded) -> Sequence[Rejected]:
    pairs = [
        (plugin, reason, count)
        for plugin, reasons in (decision.reasons or {}).items()
        for reason, count in reasons.items()
    ]
    return [
        Rejected(plugin=plugin, reason=reason, nodes=count, only=0, examples=(), resolvable=True)
        for plugin, reason, count in sorted(pairs, key=lambda pair: -pair[2])
    ]


def _in_workload(queue: QueuePlace) -> Cause:
    return Cause(reason="Workload", text=f"it waits with its workload: {queue.workload}", plugin="GangScheduling")


def _cause_in_queue(found: Explanation, queue: QueuePlace) -> Cause | None:
    """Why a pod that fits has no node yet."""
    if queue.place == "gated" and queue.gated_by == "DefaultPreemption":
        return Cause(
            reason="WaitsForPreemption", text="it waits until its victims are being deleted", plugin=queue.gated_by
        )
    if queue.workload and queue.place != "active":
        return _in_workload(queue)
    if found.state is not PodState.FITS:
        return None
    if queue.place == "backoff":
        seconds = max(0.0, queue.tried_in or 0.0)
        text = (
            f"it fits now, and is in backoff after {counted(queue.attempts, 'attempt')}: it is tried again in "
            f"{seconds:.0f} s"
        )
        return Cause(reason="Backoff", text=text)
    if queue.place == "active" and queue.ahead:
        return Cause(
            reason="Queued",
            text=f"it fits now, and {counted(queue.ahead, 'pod')} {'is' if queue.ahead == 1 else 'are'} tried before "
            "it",
        )
    return None
