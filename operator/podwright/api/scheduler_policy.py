"""SchedulerPolicy v1alpha1: its fields, their defaults and bounds, and the rules that make a policy valid by itself.

Each is declared once, in the dataclasses below: `parse_policy` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. Checks that depend on the operator, such as which
plugins exist and what their args are, follow in podwright/api/compile.py: read that next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, Literal, TypeVar

from podwright.api.kube_scheduler_configuration import (
    MAX_WEIGHT,
    POD_GROUP_POINTS,
    POINTS,
    UNKNOWN_POINT,
    PluginArgs,
    point_problem,
)
from podwright.api.spec.bounds import BOUNDS_OF_ARGS, size_problem
from podwright.api.spec.delegation import Delegation
from podwright.api.spec.devices import DEVICE_RULES, PolicyDevices
from podwright.api.spec.load_aware import NEEDS_SIGNALS
from podwright.api.spec.match import Match
from podwright.api.spec.packing import PACKING_RULES, Packing, PackingTimes
from podwright.api.spec.queue_choice import QueueChoice
from podwright.api.spec.rules import ParamsFrom, Rules, params_field
from podwright.api.spec.signals import signal_names
from podwright.api.spec.strategy import Strategy
from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.validation import (
    ATOMIC,
    SET,
    Problem,
    Rule,
    declared,
    describe,
    summary,
    unique_by,
    whole_number,
)
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.raw import mapping_at, value_at
from podwright.core.plugins.shares.kinds import SharedDevices

GROUP: Final = "podwright.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "SchedulerPolicy"
PLURAL: Final = "schedulerpolicies"
PODWRIGHT_SCHEDULER_NAME: Final = "podwright"
"""The `spec.schedulerName` that Podwright and a SchedulerPolicy serve by default."""

Reason = Literal["Invalid", "UnknownPlugin", "NotSupported", "NotAllowed"]
NAMELESS: Final = "?"
"""Stands for the name of a policy that has none."""
_CLAIM: Final = ("schedulerName", "match", "precedence", "byName", "mode")
"""The fields of a spec that say which pods the policy is for, which policy goes first, and whether it takes them."""
ByName = Literal["Never", "Allowed", "Required"]
Mode = Literal["Enforce", "Shadow"]
OnPluginFailure = Literal["Reject", "Ignore"]

SCHEDULER_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""The form of a scheduler name: a DNS subdomain. With other characters, such as a comma, field selectors would not
work.
"""


class PolicyError(ValueError):
    """A policy that cannot be accepted. `reason` is the reason of the condition Accepted."""

    def __init__(self, name: str, reason: Reason, problems: Sequence[Problem]) -> None:
        self.name = name
        self.reason = reason
        self.problems = tuple(problems)
        super().__init__(name, reason, self.problems)

    @property
    def message(self) -> str:
        """The problems without the name of the policy, in a bounded length."""
        return summary(self.problems)

    def __str__(self) -> str:
        return f"{KIND} {self.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    name: str = declared("The plugin's name.", minLength=1, maxLength=253)
    weight: int | None = whole_number(
        "For score plugins: the weight of the plugin's scores. Not given, or 0: 1.", 0, MAX_WEIGHT, default=None
    )


@dataclass(frozen=True, slots=True)
class DisabledPlugin:
    name: str = declared("The name of a default plugin, or * for all.", minLength=1, maxLength=253)


@dataclass(frozen=True, slots=True)
class PolicyPluginSet:
    enabled: tuple[EnabledPlugin, ...] = declared(
        "Plugins to run after the default ones. A default plugin listed here keeps its place and gets this weight.",
        default=(),
        maxItems=64,
        **unique_by("name"),
    )
    disabled: tuple[DisabledPlugin, ...] = declared(
        "Default plugins not to run.", default=(), maxItems=64, **unique_by("name")
    )


@dataclass(frozen=True, slots=True)
class PolicyPluginArgs(PluginArgs):
    """One entry of `pluginConfig`."""

    name: str = declared("The plugin's name.", minLength=1, maxLength=253)
    args: Mapping[str, Any] = declared(
        "The plugin's arguments, with the fields and defaults of a KubeSchedulerConfiguration.",
        default_factory=dict,
        **BOUNDS_OF_ARGS,
    )


_PLUGINS_GIVEN: Final = f"has(self.plugins) && ({' || '.join(f'has(self.plugins.{key})' for key in POINTS)})"
"""CEL. An empty set counts as given here, but not in Python: for CEL, looking into the lists costs too much."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    scheduler_name: str = declared(
        "The policy is for pods with this spec.schedulerName, which has the form of a DNS subdomain.",
        default=PODWRIGHT_SCHEDULER_NAME,
        maxLength=253,
        pattern=SCHEDULER_NAME,
    )
    match: Match = declared(
        "Narrows the policy to some of the pods with its schedulerName. All that is given must match.", default=Match()
    )
    precedence: int = whole_number(
        "If several policies match a pod, the greatest precedence wins, then the older policy, then the first name. If "
        "no policy matches, kube-scheduler's default profile schedules the pod.",
        -1_000_000_000,
        1_000_000_000,
        default=0,
    )
    by_name: ByName = declared(
        "Whether a pod that the policy matches may name it in its annotation podwright.dev/policy. The policy then "
        "decides about the pod, whatever the precedence of others. Never: such a pod waits. Allowed: it may. Required: "
        "the policy is only for pods that name it.",
        default="Never",
    )
    mode: Mode = declared(
        "Enforce: the policy schedules its pods. Shadow: the policy decides about pods that another scheduler places, "
        "writes nothing to them, and reports how often it agrees with that scheduler. It then takes no pods from other "
        "policies, precedence has no effect, and schedulerName may be any name, also default-scheduler.",
        default="Enforce",
    )
    strategy: Strategy = field(
        default=Strategy(),
        metadata=describe("How to score nodes. For most policies `type` is enough.", default={"type": "Default"}),
    )
    plugins: Mapping[str, PolicyPluginSet] = declared(
        "For strategy type Custom: plugins by extension point as in a KubeSchedulerConfiguration profile, merged into "
        "the default ones by the same rules.",
        default_factory=dict,
        keys=POINTS,
    )
    plugin_config: tuple[PolicyPluginArgs, ...] = declared(
        "Arguments of plugins as in a KubeSchedulerConfiguration profile: same fields, defaults and validation. Fields "
        "that the strategy sets must not be set here.",
        default=(),
        maxItems=64,
        **unique_by("name"),
    )
    devices: PolicyDevices = declared(
        "Which devices the pods' claims get, and which nodes are preferred for that.", default=PolicyDevices()
    )
    shared_devices: tuple[SharedDevices, ...] = declared(
        "The devices of which pods get shares. A share must be free on one device, or so many whole devices. "
        "Strategies BestFit and LeastFragmentation score by what is left of them.",
        default=(),
        maxItems=8,
        **ATOMIC,
    )
    queue: QueueChoice | None = declared(
        "The queue of the pods that name none in their label podwright.dev/queue, and whether the pods may be evicted "
        "for others. Not given: the queue that their namespace names, which says which of its pods may.",
        default=None,
    )
    packing: Packing = declared(
        "Optimal: pods are gathered for a moment and placed together, as many as possible, those of higher priority "
        "first. No pod is evicted for that without packingMayPreempt. What is left is scheduled as usual. None: each "
        "pod is placed by itself.",
        default="None",
    )
    packing_may_preempt: bool = declared(
        "For packing Optimal: of the pods that are less important than some of these, the least important may be "
        "evicted, as few as possible, if more pods get a node for that. No PodDisruptionBudget is violated.",
        default=False,
    )
    packing_times: PackingTimes = declared("For packing Optimal: how long that may take.", default=PackingTimes())
    on_plugin_failure: OnPluginFailure = declared(
        "What happens to the pods when the operator switches off a third-party plugin that takes too long or does not "
        "return. Reject: the pods wait until the plugin is on again. Ignore: they are scheduled without it.",
        default="Reject",
    )
    params: Mapping[str, str] = params_field()
    params_from: ParamsFrom | None = declared(
        "A ConfigMap with more params, which take precedence over `params`. Its changes apply at once. While it does "
        "not exist, its last known content stays in use.",
        default=None,
    )
    signals: tuple[str, ...] = signal_names(
        "Names of the signals that the rules and the strategy read: numbers of each node from outside. Only the "
        "operator's option --signals defines signals."
    )
    rules: Rules = declared("Filters and scores in CEL, in addition to the plugins.", default=Rules())
    extenders: tuple[str, ...] = declared(
        "Names of scheduler extenders that filter and score nodes, choose victims or bind for these pods. Only the "
        "operator's options define extenders.",
        default=(),
        maxItems=16,
        items={"minLength": 1, "maxLength": 253},
        **SET,
    )
    delegation: Delegation | None = declared(
        "What LocalSchedulerPolicies may do for the pods of their namespaces that this policy would decide about. Not "
        "given: nothing.",
        default=None,
    )

    RULES = (
        NEEDS_SIGNALS,
        Rule(
            cel=f"self.strategy.type != 'Custom' || ({_PLUGINS_GIVEN})",
            holds=lambda self: self.strategy.type != "Custom" or self.names_plugins,
            message="is required with strategy type Custom; strategy type Default takes pluginConfig without plugins",
            path=".plugins",
            reason="FieldValueRequired",
        ),
        Rule(
            cel=f"self.strategy.type == 'Custom' || !({_PLUGINS_GIVEN})",
            holds=lambda self: self.strategy.type == "Custom" or not self.names_plugins,
            message="is only for strategy type Custom, not {self.strategy.type}",
            fallback="is only for strategy type Custom",
            path=".plugins",
            reason="FieldValueForbidden",
        ),
        *DEVICE_RULES,
        *PACKING_RULES,
        Rule(
            cel="self.strategy.type != 'LeastFragmentation' || (has(self.sharedDevices) && size(self.sharedDevices) > 0)",
            holds=lambda self: self.strategy.type != "LeastFragmentation" or bool(self.shared_devices),
            message="is required with strategy type LeastFragmentation",
            path=".sharedDevices",
            reason="FieldValueRequired",
        ),
        Rule(
            cel="self.mode != 'Shadow' || !has(self.queue)",
            holds=lambda self: self.mode != "Shadow" or self.queue is None,
            message="is not for mode Shadow: such a policy decides about no pods",
            path=".queue",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.mode != 'Shadow' || self.byName == 'Never'",
            holds=lambda self: self.mode != "Shadow" or self.by_name == "Never",
            message="has no effect with mode Shadow: all pods that match are looked at",
            path=".byName",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.mode != 'Shadow' || !has(self.extenders) || size(self.extenders) == 0",
            holds=lambda self: self.mode != "Shadow" or not self.extenders,
            message="is not for mode Shadow: extenders may act on what they are asked",
            path=".extenders",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel="self.mode != 'Shadow' || !has(self.delegation)",
            holds=lambda self: self.mode != "Shadow" or self.delegation is None,
            message="is not for mode Shadow: such a policy decides about no pods, so it bounds no other policies",
            path=".delegation",
            reason="FieldValueForbidden",
        ),
        Rule(
            violations=lambda self: (f".plugins.{key}" for key in self.plugins if key not in POINTS),
            message=UNKNOWN_POINT,
        ),
    )

    @property
    def names_plugins(self) -> bool:
        return any(plugin_set.enabled or plugin_set.disabled for plugin_set in self.plugins.values())


S = TypeVar("S")


@dataclass(frozen=True)  # no slots: Python 3.11 cannot call a generic alias of a frozen class that has them
class Policy(Generic[S]):
    """A decoded policy object. `generation` is 0 if the object has none. `created`: in seconds since the epoch, 0 if
    not known. `namespace`: of a LocalSchedulerPolicy.
    """

    name: str
    generation: int
    spec: S
    created: float = 0.0
    namespace: str = ""

    @property
    def key(self) -> str:
        """The name; of a LocalSchedulerPolicy namespace/name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


SchedulerPolicy = Policy[PolicySpec]


@dataclass(frozen=True, slots=True)
class LastAccepted:
    """The content of `status.lastAccepted`: lets an operator that restarts go back to it from an invalid generation."""

    generation: int = declared("The generation that was accepted last.", minimum=0)
    spec: Mapping[str, Any] = declared("Its spec.")


def parse_last_accepted(raw: Mapping[str, Any]) -> LastAccepted | None:
    """`status.lastAccepted` of a SchedulerPolicy object, None if it has none. Raises PolicyError.

    Anyone may have written the spec in it, so parse it with `parse_policy` like any other.
    """
    kept = value_at(raw, "status", "lastAccepted")
    if kept is None:
        return None
    try:
        return decode(LastAccepted, kept, "status.lastAccepted")
    except ArgsError as error:
        raise PolicyError(identity_of(raw)[0], "Invalid", error.problems) from error


def identity_of(raw: Mapping[str, Any]) -> tuple[str, str, int]:
    """Name, uid and generation of an object that may be malformed; NAMELESS, "" and 0 if missing."""
    known = mapping_at(raw, "metadata")
    name, generation = known.get("name"), known.get("generation")
    return (
        name if isinstance(name, str) and name else NAMELESS,
        str(known.get("uid") or ""),
        generation if isinstance(generation, int) else 0,
    )


def created_of(raw: Mapping[str, Any]) -> float:
    """When an object was created, in seconds since the epoch; 0 if that is unknown."""
    try:
        return parse_time(value_at(raw, "metadata", "creationTimestamp"), "metadata.creationTimestamp") or 0.0
    except InvalidObjectError:
        return 0.0


def namespace_of(raw: Mapping[str, Any]) -> str:
    """The namespace of an object that may be malformed; "" if it has none."""
    namespace = value_at(raw, "metadata", "namespace")
    return namespace if isinstance(namespace, str) else ""


def last_accepted_of(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], LastAccepted] | None:
    """The object as it was when it was accepted last, by its `status.lastAccepted`; None if that is what it is now.
    Raises PolicyError.
    """
    last = parse_last_accepted(raw)
    if last is None or last.spec == raw.get("spec"):
        return None
    return {**raw, "metadata": {**raw["metadata"], "generation": last.generation}, "spec": last.spec}, last


def was_accepted(raw: Mapping[str, Any]) -> bool:
    """True if the object's spec is the one in its `status.lastAccepted`."""
    try:
        last = parse_last_accepted(raw)
    except PolicyError:
        return False
    return last is not None and last.spec == raw.get("spec")


def parse_claim(raw: Mapping[str, Any]) -> SchedulerPolicy:
    """Decodes only the fields that select pods: scheduler name, `match`, precedence, `byName`, `mode`. Raises
    PolicyError.
    """
    spec = raw.get("spec")
    if not isinstance(spec, Mapping):
        raise PolicyError(identity_of(raw)[0], "Invalid", [("spec", "expected an object")])
    return decoded(raw, PolicySpec, {key: spec[key] for key in _CLAIM if key in spec})


def parse_policy(raw: Mapping[str, Any]) -> SchedulerPolicy:
    """Decodes a SchedulerPolicy object. Raises PolicyError naming the policy and every field that is wrong."""
    check_kind(raw, KIND)
    spec = raw.get("spec")
    if isinstance(spec, Mapping):
        _reject_group_points(identity_of(raw)[0], spec)
    return decoded(raw, PolicySpec, spec)


def check_kind(raw: Mapping[str, Any], kind: str) -> None:
    """Raises PolicyError if the object has no name, or says that it is of another version or kind."""
    name = identity_of(raw)[0]
    if name == NAMELESS:
        raise PolicyError(name, "Invalid", [("metadata.name", "a name is required")])
    wrong = [
        (key, f"{raw[key]!r:.60} should be {value!r}")
        for key, value in (("apiVersion", f"{GROUP}/{VERSION}"), ("kind", kind))
        if raw.get(key, value) != value
    ]
    if wrong:
        raise PolicyError(name, "Invalid", wrong)


def decoded(raw: Mapping[str, Any], type_: type[S], spec: object) -> Policy[S]:
    """The policy of this object with this spec. Raises PolicyError."""
    name, _, generation = identity_of(raw)
    if spec is None:
        raise PolicyError(name, "Invalid", [("spec", "a value is required")])
    if problem := size_problem(spec):
        raise PolicyError(name, "Invalid", [("spec", problem)])
    try:
        return Policy(name, generation, decode(type_, spec, "spec"), created_of(raw), namespace_of(raw))
    except ArgsError as error:
        raise PolicyError(name, "Invalid", error.problems) from error


def _reject_group_points(name: str, spec: Mapping[str, Any]) -> None:
    plugins = spec.get("plugins")
    named = plugins if isinstance(plugins, Mapping) else ()
    problems = [(f"spec.plugins.{key}", point_problem(key)) for key in named if key in POD_GROUP_POINTS]
    if problems:
        raise PolicyError(name, "NotSupported", problems)
