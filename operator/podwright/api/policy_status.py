"""The status of a SchedulerPolicy: observedGeneration, its conditions, and lastAccepted.

Accepted says whether the newest generation is valid, Active whether the policy decides about pods. Each other condition
exists only while it holds: PluginFailed (a plugin of the active generation raised an exception), PluginOutdated (newer
versions of its plugins cannot be loaded), PluginSwitchedOff (some of its plugins are off), ParamsMissing, OverBudget,
and Conflict (only the age decides between this policy and others). With lastAccepted, an operator that restarts can go
back to the last accepted generation when the newest one is invalid. The caller passes the time; a condition keeps its
lastTransitionTime while its status stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final, Literal, Protocol

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_overlaps import Overlap
from podwright.api.policy_result import ApplyResult
from podwright.api.scheduler_policy import LastAccepted, identity_of
from podwright.core.framework.args import encode
from podwright.core.framework.validation import ATOMIC, declared, unique_by
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import mapping_at
from podwright.core.objects.times import rfc3339

ACCEPTED: Final = "Accepted"
ACTIVE: Final = "Active"
PLUGIN_FAILED: Final = "PluginFailed"
PLUGIN_OUTDATED: Final = "PluginOutdated"
PLUGIN_SWITCHED_OFF: Final = "PluginSwitchedOff"
PARAMS_MISSING: Final = "ParamsMissing"
CONFLICT: Final = "Conflict"
OVER_BUDGET: Final = "OverBudget"

_MESSAGE_LIMIT: Final = 32768


_FAULTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowWork:
    """The findings of a policy in shadow mode. `since`: seconds since the epoch. `agreed`, `tied`, `disagreed`: numbers
    of comparisons.
    """

    since: float
    agreed: int = 0
    tied: int = 0
    disagreed: int = 0


@dataclass(frozen=True, slots=True)
class PackingStatus:
    """The result of the last batch of a policy with packing Optimal."""

    pods: int = declared("How many pods there were.", minimum=0)
    placed: int = declared("How many of them got a node, or get one once their victims have left.", minimum=0)
    certificate: Literal["Optimal", "Bound", "TimedOut"] = declared(
        "Optimal: no placement is better, which is proved. Bound: see message. TimedOut: nothing is proved."
    )
    message: str = declared("How far the placement may be from the best one, or a problem.", default="", maxLength=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a policy since the operator started, all generations together.

    Problems of the active generation, "" without one: `exceptions` that its plugins raised, in short;
    `outdated_plugins`: why newer versions of them are not loaded; `switched_off`: which of them are off, and why;
    `over_budget`: why a local policy is over its time budget; `missing_params`: what is wrong with the ConfigMaps of
    its params.

    `faults`: times in seconds since the epoch, and texts; `causes`: the plugins and rules that caused them.
    `interpreted`: rules that are evaluated node by node, with the reason. `rules`: what the rules of the active
    generation may cost for a new pod, in units of CEL, and the seconds of its longest decision.
    """

    exceptions: str = ""
    outdated_plugins: str = ""
    switched_off: str = ""
    over_budget: str = ""
    missing_params: str = ""
    decisions: int = 0
    pending_pods: int = 0
    evaluation_errors: int = 0
    faults: tuple[tuple[float, str], ...] = ()
    causes: frozenset[str] = frozenset()
    interpreted: tuple[tuple[str, str], ...] = ()
    rules: tuple[int, float] | None = None
    shadow: ShadowWork | None = None
    packing: PackingStatus | None = None

    @property
    def state(self) -> tuple[object, ...]:
        """The part of the work that has to be written at once when it changes."""
        return (
            self.exceptions,
            self.outdated_plugins,
            self.switched_off,
            self.over_budget,
            self.missing_params,
            self.causes,
            self.interpreted,
        )


NO_WORK: Final = Work()


def _count(description: str, form: str = "int64") -> Any:
    """A field with a number of things. `form`: its format in the CRD."""
    return declared(description, default=0, format=form, minimum=0)


@dataclass(frozen=True, slots=True)
class ShadowStatus:
    since: str = declared("When this generation began to be compared.", format="date-time")
    agreement: str = declared(
        "The share of agreements, without ties, such as 98.50 %. Absent: nothing to compare yet.",
        default="",
        maxLength=16,
    )
    agreed: int = _count("How often the policy and the other scheduler agreed.")
    tied: int = _count("How often the other scheduler chose one of several nodes with the policy's best score.")
    disagreed: int = _count("How often they disagreed.")


@dataclass(frozen=True, slots=True)
class FaultReport:
    time: str = declared("When it happened last.", format="date-time")
    message: str = declared("What a plugin or a rule did.", maxLength=1024)


@dataclass(frozen=True, slots=True)
class RuleCost:
    estimated_milliseconds: int = _count(
        "What the rules may take of a processor for a new pod on all nodes, rounded up: an estimate from their types, "
        "the number of nodes, and "
        "usual sizes of maps and lists."
    )
    measured_milliseconds: int = _count("How long the longest decision of this generation took, rounded up.")


@dataclass(frozen=True, slots=True)
class InterpretedRule:
    name: str = declared("The rule.", maxLength=63)
    reason: str = declared("Why it cannot run on all nodes at once.", maxLength=1024)


class Policies(Protocol):
    """The policies whose statuses are computed: the PolicySet, or its local policies."""

    def decider(self, name: str, /) -> object: ...
    def shadowed_by(self, name: str, /) -> str | None: ...
    def makes_pods_wait(self, name: str, /) -> bool: ...
    def last_accepted(self, name: str, /) -> LastAccepted | None: ...
    def overlapping(self, name: str, /) -> Overlap | None: ...
    def bases_of(self, name: str, /) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Condition:
    """A metav1.Condition."""

    type: str = declared(
        "Accepted (the newest generation is valid), Active (the policy decides about pods), PluginFailed (a plugin "
        "raised an exception since this generation is active), PluginOutdated (the plugin files have changed, and "
        "cannot be loaded), PluginSwitchedOff (a plugin took too long, or did not return), ParamsMissing (a ConfigMap "
        "that has params does not exist), OverBudget (what a local policy adds takes too long), or Conflict (some pods "
        "may match this policy and others of the same precedence).",
        maxLength=316,
    )
    status: Literal["True", "False", "Unknown"] = declared("Whether the condition holds.")
    reason: str = declared(
        "Accepted: Accepted, Invalid, UnknownPlugin, NotSupported, NotAllowed. Active: InForce, LastGoodGeneration, "
        "ShadowMode, Shadowed, NotAccepted. PluginFailed: ExceptionRaised. PluginOutdated: ReloadFailed. "
        "PluginSwitchedOff: TooSlow. ParamsMissing: NoConfigMap. OverBudget: TooSlow. Conflict: EqualPrecedence.",
        maxLength=1024,
    )
    message: str = declared("What is wrong and where, and which generation is active.", maxLength=_MESSAGE_LIMIT)
    last_transition_time: str = declared("When `status` last changed.", format="date-time")
    observed_generation: int | None = declared("The generation that the condition is about.", default=None, minimum=0)


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    observed_generation: int | None = declared(
        "The newest generation that the operator has checked.", default=None, minimum=0
    )
    conditions: tuple[Condition, ...] = declared(
        "Accepted and Active; PluginFailed, PluginOutdated, PluginSwitchedOff, ParamsMissing, OverBudget and Conflict "
        "if they hold.",
        default=(),
        maxItems=16,
        **unique_by("type"),
    )
    last_accepted: LastAccepted | None = declared(
        "The generation that was accepted last. It stays active while a newer one is invalid, even if the operator "
        "restarts.",
        default=None,
    )
    active_generation: int | None = declared(
        "The generation that decides about pods; absent if none does.", default=None, minimum=0
    )
    decisions: int = _count(
        "How many decisions the policy has made since the operator started. This, pendingPods and evaluationErrors "
        "are written with other changes, and otherwise at most once a minute. The metric podwright_policy_decisions_total is always current."
    )
    pending_pods: int = _count("How many pods wait whose last attempt was under this policy.", "int32")
    evaluation_errors: int = _count(
        "How many exceptions of plugins and errors of rules there were since the operator started."
    )
    faults: tuple[FaultReport, ...] = declared(
        "The last different faults, the latest first.", default=(), maxItems=_FAULTS, **ATOMIC
    )
    interpreted_rules: tuple[InterpretedRule, ...] = declared(
        "The rules that are evaluated node by node, which takes longer than on all nodes at once.",
        default=(),
        maxItems=128,
        **unique_by("name"),
    )
    rule_cost: RuleCost | None = declared(
        "Of a policy with rules: what they cost, estimated and measured.", default=None
    )
    shadow: ShadowStatus | None = declared(
        "Of a policy with mode Shadow: how far it agrees, as of the last time that the status was written. The metrics "
        "and `podwright shadow report` are always current.",
        default=None,
    )
    packing: PackingStatus | None = declared(
        "Of a policy with packing Optimal: what came of its last batch of pods.", default=None
    )
    bounded_by: tuple[str, ...] = declared(
        "Of a LocalSchedulerPolicy: the SchedulerPolicies whose delegation bounds it.",
        default=(),
        maxItems=16,
        **ATOMIC,
    )


def basis_of(policies: Policies, applied: ApplyResult) -> tuple[object, ...]:
    """Returns the inputs of `status_of` except `previous` and `work`. Equal tuples mean equal statuses. Cheap to
    compare.
    """
    name = applied.name
    return (
        applied,
        policies.decider(name),
        policies.shadowed_by(name),
        policies.makes_pods_wait(name),
        _overlap_of(policies, name),
        tuple(policies.bases_of(name)),
    )


def status_of(
    policies: Policies,
    applied: ApplyResult,
    previous: Mapping[str, Any] | None,
    now: str,
    work: Work = NO_WORK,
) -> dict[str, Any]:
    """The status of the policy that `applied` is about. If it equals `previous`, nothing has to be written.

    `now` is an RFC 3339 time. One policy can shadow another, so the status of each policy depends on all of them:
    compute a status again when its `basis_of` has changed.
    """
    before = conditions_by_type(previous)
    # Keep a generation that cannot be accepted now, because a missing plugin may come back.
    kept = encode(policies.last_accepted(applied.name)) or (previous or {}).get("lastAccepted")
    last_accepted = kept if isinstance(kept, Mapping) else {}
    conditions = [
        UntimedCondition(ACCEPTED, applied.accepted, applied.reason, applied.message),
        _active_condition(policies, applied, last_accepted.get("generation")),
    ]
    if work.exceptions:
        conditions.append(UntimedCondition(PLUGIN_FAILED, True, "ExceptionRaised", work.exceptions))
    if work.outdated_plugins:
        conditions.append(UntimedCondition(PLUGIN_OUTDATED, True, "ReloadFailed", work.outdated_plugins))
    if work.switched_off:
        conditions.append(UntimedCondition(PLUGIN_SWITCHED_OFF, True, "TooSlow", f"{work.switched_off}."))
    if work.missing_params:
        conditions.append(UntimedCondition(PARAMS_MISSING, True, "NoConfigMap", f"{work.missing_params}."))
    if work.over_budget:
        message = (
            f"{work.over_budget[:1].upper()}{work.over_budget[1:]}. Its scores count 0, and its pods wait for others. "
            "Its filters hold."
        )
        conditions.append(UntimedCondition(OVER_BUDGET, True, "TooSlow", message))
    if overlap := _overlap_of(policies, applied.name):
        conditions.append(UntimedCondition(CONFLICT, True, "EqualPrecedence", overlap))
    status: dict[str, Any] = {
        "observedGeneration": applied.generation,
        "conditions": [timed(each, before.get(each.type), applied.generation, now) for each in conditions],
    }
    if last_accepted:
        status["lastAccepted"] = last_accepted
    if applied.active_generation is not None:
        status["activeGeneration"] = applied.active_generation
    if bounds := policies.bases_of(applied.name):
        status["boundedBy"] = list(bounds)
    return status | _work(work)


def says_accepted(raw: Mapping[str, Any]) -> bool:
    """True if the operator has accepted this generation of the raw policy, by its status. Never raises, whatever the
    status contains.
    """
    found = conditions_by_type(mapping_at(raw, "status")).get(ACCEPTED, {})
    return found.get("status") == "True" and found.get("observedGeneration") == identity_of(raw)[2]


def _work(work: Work) -> dict[str, Any]:
    """The fields about what the policy has done; without those that are 0 or empty."""
    found: dict[str, Any] = {
        "decisions": work.decisions,
        "pendingPods": work.pending_pods,
        "evaluationErrors": work.evaluation_errors,
        "faults": [{"time": rfc3339(time), "message": text[:1024]} for time, text in reversed(work.faults)],
        "interpretedRules": [{"name": name, "reason": reason[:1024]} for name, reason in work.interpreted],
    }
    if work.rules is not None:
        cost, seconds = work.rules
        found["ruleCost"] = {"estimatedMilliseconds": ceil(cost / 1000), "measuredMilliseconds": ceil(seconds * 1000)}
    if work.shadow is not None:
        found["shadow"] = _shadow(work.shadow)
    if work.packing is not None:
        found["packing"] = encode(work.packing)
    return {key: value for key, value in found.items() if value}


def _shadow(work: ShadowWork) -> dict[str, Any]:
    found: dict[str, Any] = {
        "since": rfc3339(work.since),
        "agreed": work.agreed,
        "tied": work.tied,
        "disagreed": work.disagreed,
    }
    decided = work.agreed + work.disagreed
    return {**found, "agreement": percent(work.agreed / decided)} if decided else found


def percent(share: float) -> str:
    """A share from 0 to 1 as a percentage. Only 1 is shown as 100 %, and only 0 as 0 %."""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    return f"{min(99.99, max(0.01, 100 * share)):.2f} %"


@dataclass(frozen=True, slots=True)
class UntimedCondition:
    """A condition without lastTransitionTime and observedGeneration."""

    type: str
    holds: bool
    reason: str
    message: str


def _active_condition(policies: Policies, applied: ApplyResult, last_accepted: int | None) -> UntimedCondition:
    """`last_accepted`: the generation that was accepted last, None if no generation was."""
    if applied.active_generation is None:
        message = "No generation of this policy was accepted."
        if last_accepted is not None:
            message = f"Generation {last_accepted} was accepted before, but cannot be accepted now."
        if policies.makes_pods_wait(applied.name):
            message += " The pods that it would decide about wait."
        return UntimedCondition(ACTIVE, False, "NotAccepted", message)
    active = policies.decider(applied.name)
    if isinstance(active, CompiledPolicy) and active.shadow:
        message = (
            f"Generation {active.generation} is in shadow mode: it takes no pods, and reports what it would do with "
            "them."
        )
        return UntimedCondition(ACTIVE, False, "ShadowMode", message)
    shadow = policies.shadowed_by(applied.name)
    if shadow is not None:
        message = f"Policy {shadow} goes first and takes every pod that this one would take."
        return UntimedCondition(ACTIVE, False, "Shadowed", message)
    in_force = f"Generation {applied.active_generation} is in force"
    if applied.accepted:
        return UntimedCondition(ACTIVE, True, "InForce", f"{in_force}.")
    message = f"{in_force}; generation {applied.generation} was not accepted."
    return UntimedCondition(ACTIVE, True, "LastGoodGeneration", message)


def _overlap_of(policies: Policies, name: str) -> str:
    """Names policies of the same precedence that may match the same pods, in a sentence; "" without such policies.

    It omits their number, which would change the statuses of a thousand policies whenever one more comes.
    """
    found = policies.overlapping(name)
    if found is None:
        return ""
    places = [f"{how} {', '.join(names)}" for how, names in (("after", found.before), ("before", found.after)) if names]
    return (
        f"This policy goes {' and '.join(places)}{', and there are others' if found.more else ''}: they have the same "
        f"precedence, {found.precedence}, and some pods may match both. The older policy goes first, then the first "
        "name."
    )


def conditions_by_type(status: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, Any]]:
    """The conditions of a status that may be malformed."""
    conditions = (status or {}).get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    return {str(each.get("type")): each for each in listed if isinstance(each, Mapping)}


def timed(condition: UntimedCondition, before: Mapping[str, Any] | None, generation: int, now: str) -> dict[str, Any]:
    """The condition as the API has it. It keeps the time of `before` while its status stays the same."""
    status: Literal["True", "False"] = "True" if condition.holds else "False"
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == status else None
    timed = Condition(
        type=condition.type,
        status=status,
        reason=condition.reason,
        message=condition.message[:_MESSAGE_LIMIT],
        last_transition_time=since or now,
        observed_generation=generation,
    )
    return dict(encode(timed))
