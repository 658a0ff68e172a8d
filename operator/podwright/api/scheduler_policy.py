"""SchedulerPolicy v1alpha1: its fields, defaults and bounds, and what makes one valid by itself.

The dataclasses are the one source: `parse_policy` decodes and validates by them, podwright/api/crd.py derives the CRD.
What depends on the operator (which plugins there are, their args) is checked in podwright/api/compile.py: read that next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from podwright.api.kube_scheduler_configuration import POD_GROUP_POINTS, PluginArgs, point_problems
from podwright.core.framework.args import ArgsError, Problem, decode, encode
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.selectors import LabelSelector, parse_label_selector

GROUP: Final = "podwright.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "SchedulerPolicy"
PLURAL: Final = "schedulerpolicies"
PODWRIGHT_SCHEDULER_NAME: Final = "podwright"
"""The `spec.schedulerName` that Podwright and a SchedulerPolicy serve by default."""

Reason = Literal["Invalid", "UnknownPlugin", "NotSupported"]
StrategyType = Literal[
    "Default",
    "LeastAllocated",
    "MostAllocated",
    "BalancedAllocation",
    "RequestedToCapacityRatio",
    "Random",
    "NodeName",
    "Custom",
]
WITH_RESOURCES: Final = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "RequestedToCapacityRatio")
"""The strategy types that take `resources`."""
NAMELESS: Final = "?"
"""Stands for the name of a policy that has none."""
NOT_SERVED: Final = ("rules", "extenders")
"""Fields of later versions."""

MAX_WEIGHT: Final = 2**31 - 1
"""kube-scheduler's bound, an int32. As many plugins as a policy can name, at most 100 points each, stay far below 2**63."""

_LABEL_VALUE: Final = r"^([a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$"
_LABEL_NAME: Final = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIX_LIMIT: Final = 253
_VALUE_LIMIT: Final = 63

_QUALIFIED_NAME: Final = r"^([a-z0-9A-Z]([-a-z0-9A-Z.]*[a-z0-9A-Z])?/)?[a-z0-9A-Z]([-a-z0-9A-Z_.]*[a-z0-9A-Z])?$"


class PolicyError(ValueError):
    """A policy that cannot be accepted. `reason` is for the condition Accepted; `problems` are (field path, problem)."""

    def __init__(self, name: str, reason: Reason, problems: Sequence[Problem]) -> None:
        self.name = name
        self.reason = reason
        self.problems = tuple(problems)
        super().__init__(name, reason, self.problems)

    @property
    def message(self) -> str:
        """The problems without the name of the policy."""
        return "; ".join(f"{where}: {problem}" for where, problem in self.problems)

    def __str__(self) -> str:
        return f"{KIND} {self.name}: {self.message}"


def _doc(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": schema}


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement:
    key: str = field(
        metadata=_doc("The label key.", minLength=1, maxLength=317, pattern=_QUALIFIED_NAME),
    )
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = field(
        metadata=_doc("How the label's value relates to `values`.")
    )
    values: tuple[str, ...] = field(
        default=(),
        metadata=_doc(
            "Needed for In and NotIn, not allowed for Exists and DoesNotExist.",
            maxItems=64,
            items={"maxLength": _VALUE_LIMIT, "pattern": _LABEL_VALUE},
            **{"x-kubernetes-list-type": "set"},
        ),
    )

    SCHEMA = {  # noqa: RUF012 -- read only
        "x-kubernetes-validations": [
            {
                "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                "message": "values are needed for In and NotIn, and not allowed for Exists and DoesNotExist",
            }
        ]
    }


@dataclass(frozen=True, slots=True)
class Selector:
    match_labels: Mapping[str, str] = field(
        default_factory=dict,
        metadata=_doc("Labels that must all have these values.", maxProperties=64, additionalProperties={"type": "string", "maxLength": _VALUE_LIMIT, "pattern": _LABEL_VALUE}),
    )  # fmt: skip
    match_expressions: tuple[LabelSelectorRequirement, ...] = field(
        default=(),
        metadata=_doc("Requirements that must all hold, too.", maxItems=64, **{"x-kubernetes-list-type": "atomic"}),
    )

    def parse(self, where: str) -> LabelSelector:
        """Raises InvalidObjectError naming the field."""
        return parse_label_selector(encode(self), where)


@dataclass(frozen=True, slots=True)
class Match:
    namespace_selector: Selector | None = field(
        default=None,
        metadata=_doc("Labels of the pod's namespace. Not given, or empty: every namespace."),
    )
    pod_selector: Selector | None = field(
        default=None, metadata=_doc("Labels of the pod itself. Not given, or empty: every pod.")
    )


@dataclass(frozen=True, slots=True)
class Resource:
    name: str = field(
        metadata=_doc(
            "A resource as in a container's requests: cpu, memory, nvidia.com/gpu, …",
            minLength=1,
            maxLength=253,
            pattern=_QUALIFIED_NAME,
        )
    )
    weight: int = field(
        default=1,
        metadata=_doc(
            "How much the resource counts against the others. BalancedAllocation takes only 1.",
            format="int32",
            minimum=1,
            maximum=100,
        ),
    )


@dataclass(frozen=True, slots=True)
class ShapePoint:
    utilization: int = field(
        metadata=_doc("Percentage of the node's resource that is requested.", format="int32", minimum=0, maximum=100)
    )
    score: int = field(
        metadata=_doc("The score at that utilization, from 0 to 10.", format="int32", minimum=0, maximum=10)
    )


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    shape: tuple[ShapePoint, ...] = field(
        metadata=_doc(
            "Points of the scoring function, in the order of rising utilization; between two points it is a straight line.",
            minItems=1,
            maxItems=32,
            **{
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    {
                        "rule": "self.all(p, self.exists_one(q, q.utilization == p.utilization)) && self.map(p, p.utilization).isSorted()",
                        "message": "utilization must rise from point to point",
                    }
                ],
            },
        )
    )


@dataclass(frozen=True, slots=True)
class Strategy:
    type: StrategyType = field(
        default="Default",
        metadata=_doc(
            "Which nodes are liked best. It changes scoring only: a node that the filters reject is never taken. "
            "Default: kube-scheduler's default profile, with LeastAllocated and BalancedAllocation together. "
            "LeastAllocated, MostAllocated, RequestedToCapacityRatio: NodeResourcesFit's scoring strategy, everything else as in Default. "
            "BalancedAllocation: of the scores by resources only the balance between them. "
            "Random: any feasible node. NodeName: the feasible node whose name is first in byte order. "
            "Custom: what `plugins` says."
        ),
    )
    resources: tuple[Resource, ...] = field(
        default=(),
        metadata=_doc(
            "The resources that count, cpu and memory with weight 1 by default. For LeastAllocated, MostAllocated, "
            "BalancedAllocation and RequestedToCapacityRatio.",
            maxItems=32,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    )
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = field(
        default=None, metadata=_doc("Needed for, and only for, type RequestedToCapacityRatio.")
    )

    SCHEMA = {  # noqa: RUF012 -- read only
        "x-kubernetes-validations": [
            {
                "rule": f"self.type in {list(WITH_RESOURCES)} || !has(self.resources) || size(self.resources) == 0",
                "messageExpression": "'is not used by strategy type ' + self.type",
                "message": "is not used by this strategy type",
                "fieldPath": ".resources",
                "reason": "FieldValueForbidden",
            },
            {
                "rule": "self.type != 'BalancedAllocation' || !has(self.resources) || self.resources.all(r, r.weight == 1)",
                "message": "strategy type BalancedAllocation takes only weight 1",
                "fieldPath": ".resources",
            },
            {
                "rule": "self.type != 'RequestedToCapacityRatio' || has(self.requestedToCapacityRatio)",
                "message": "is required with strategy type RequestedToCapacityRatio",
                "fieldPath": ".requestedToCapacityRatio",
                "reason": "FieldValueRequired",
            },
            {
                "rule": "self.type == 'RequestedToCapacityRatio' || !has(self.requestedToCapacityRatio)",
                "messageExpression": "'is not used by strategy type ' + self.type",
                "message": "is not used by this strategy type",
                "fieldPath": ".requestedToCapacityRatio",
                "reason": "FieldValueForbidden",
            },
        ]
    }

    def problems(self, where: str) -> Iterator[Problem]:
        """What the bounds of single fields do not say."""
        if self.resources and self.type not in WITH_RESOURCES:
            yield f"{where}.resources", f"is not used by strategy type {self.type}"
        yield from _duplicates([resource.name for resource in self.resources], f"{where}.resources")
        for i, resource in enumerate(self.resources):
            if self.type == "BalancedAllocation" and resource.weight != 1:
                yield f"{where}.resources[{i}].weight", "strategy type BalancedAllocation takes only weight 1"
        ratio, path = self.requested_to_capacity_ratio, f"{where}.requestedToCapacityRatio"
        if ratio is None:
            if self.type == "RequestedToCapacityRatio":
                yield path, "is required with strategy type RequestedToCapacityRatio"
            return
        if self.type != "RequestedToCapacityRatio":
            yield path, f"is not used by strategy type {self.type}"
        for i in range(1, len(ratio.shape)):
            if ratio.shape[i].utilization <= ratio.shape[i - 1].utilization:
                yield f"{path}.shape[{i}].utilization", "utilization must rise from point to point"


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    name: str = field(metadata=_doc("The plugin's name.", minLength=1, maxLength=253))
    weight: int | None = field(
        default=None,
        metadata=_doc(
            "For score plugins: how much its scores count. Not given, or 0: 1.",
            format="int32",
            minimum=0,
            maximum=MAX_WEIGHT,
        ),
    )


@dataclass(frozen=True, slots=True)
class DisabledPlugin:
    name: str = field(metadata=_doc("The name of a default plugin, or * for all.", minLength=1, maxLength=253))


_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@dataclass(frozen=True, slots=True)
class PolicyPluginSet:
    enabled: tuple[EnabledPlugin, ...] = field(
        default=(),
        metadata=_doc("Plugins to run, after the default ones; a default plugin named here keeps its place and takes this weight.", maxItems=64, **_BY_NAME),
    )  # fmt: skip
    disabled: tuple[DisabledPlugin, ...] = field(
        default=(), metadata=_doc("Default plugins not to run.", maxItems=64, **_BY_NAME)
    )

    def problems(self, where: str) -> Iterator[Problem]:
        yield from _duplicates([plugin.name for plugin in self.enabled], f"{where}.enabled")
        yield from _duplicates([plugin.name for plugin in self.disabled], f"{where}.disabled")


@dataclass(frozen=True, slots=True)
class PolicyPluginArgs(PluginArgs):
    """One entry of `pluginConfig`."""

    name: str = field(metadata=_doc("The plugin's name.", minLength=1, maxLength=253))
    args: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=_doc("The plugin's arguments, with the fields and defaults that they have in a KubeSchedulerConfiguration."),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PolicySpec:
    scheduler_name: str = field(
        default=PODWRIGHT_SCHEDULER_NAME,
        metadata=_doc("The policy is for pods with this spec.schedulerName.", minLength=1, maxLength=253),
    )
    match: Match = field(
        default=Match(),
        metadata=_doc("Narrows the policy to some of those pods; all that is given must hold."),
    )
    precedence: int = field(
        default=0,
        metadata=_doc(
            "Where several policies match a pod, the greatest precedence wins, then the first name. Where none does, "
            "kube-scheduler's default profile serves the pod.",
            format="int32",
            minimum=-1_000_000_000,
            maximum=1_000_000_000,
        ),
    )
    strategy: Strategy = field(
        default=Strategy(), metadata=_doc("The short way: one word that most people want.", default={"type": "Default"})
    )
    plugins: Mapping[str, PolicyPluginSet] = field(
        default_factory=dict,
        metadata=_doc(
            "The exact way, for strategy type Custom: plugins by extension point as in a KubeSchedulerConfiguration profile, "
            "merged into the default ones by the same rules."
        ),
    )
    plugin_config: tuple[PolicyPluginArgs, ...] = field(
        default=(),
        metadata=_doc(
            "Arguments of plugins as in a KubeSchedulerConfiguration profile: same fields, defaults and validation. "
            "What the strategy sets must not be set here, too.",
            maxItems=64,
            **_BY_NAME,
        ),
    )

    def validate(self, where: str) -> Iterator[Problem]:
        """What the bounds of single fields do not say."""
        for key, selector in (
            ("namespaceSelector", self.match.namespace_selector),
            ("podSelector", self.match.pod_selector),
        ):
            if selector is not None:
                yield from _selector_problems(selector, f"{where}.match.{key}")
        yield from self.strategy.problems(f"{where}.strategy")
        for key, plugin_set in self.plugins.items():
            yield from point_problems(key, f"{where}.plugins")
            yield from plugin_set.problems(f"{where}.plugins.{key}")
        given = any(plugin_set.enabled or plugin_set.disabled for plugin_set in self.plugins.values())
        if self.strategy.type == "Custom" and not given:
            yield f"{where}.plugins", "is required with strategy type Custom"
        if self.strategy.type != "Custom" and given:
            yield f"{where}.plugins", f"is only for strategy type Custom, not {self.strategy.type}"
        yield from _duplicates([entry.name for entry in self.plugin_config], f"{where}.pluginConfig")


@dataclass(frozen=True, slots=True)
class SchedulerPolicy:
    """A policy as it was applied. `generation` is 0 where the object has none."""

    name: str
    uid: str
    generation: int
    spec: PolicySpec


@dataclass(frozen=True, slots=True)
class LastAccepted:
    """What `status.lastAccepted` keeps, so that a bad generation leaves a good one in force even after a restart."""

    generation: int = field(metadata=_doc("The generation that was accepted last.", minimum=0))
    spec: Mapping[str, Any] = field(metadata=_doc("Its spec."))


def parse_last_accepted(raw: Mapping[str, Any]) -> LastAccepted | None:
    """What the status of a SchedulerPolicy object remembers; None for nothing. Raises PolicyError.

    Its spec is as anybody may have written it: it goes through `parse_policy` as any other.
    """
    status = raw.get("status")
    kept = status.get("lastAccepted") if isinstance(status, Mapping) else None
    if kept is None:
        return None
    try:
        return decode(LastAccepted, kept, "status.lastAccepted")
    except ArgsError as error:
        raise PolicyError(identity_of(raw)[0], "Invalid", error.problems) from error


def identity_of(raw: Mapping[str, Any]) -> tuple[str, str, int]:
    """Name, uid and generation of an object that may be malformed: NAMELESS, "" and 0 for what is missing."""
    metadata = raw.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    name, generation = known.get("name"), known.get("generation")
    return (
        name if isinstance(name, str) and name else NAMELESS,
        str(known.get("uid") or ""),
        generation if isinstance(generation, int) else 0,
    )


def parse_policy(raw: Mapping[str, Any]) -> SchedulerPolicy:
    """A SchedulerPolicy object. Raises PolicyError naming the policy and every field that is wrong."""
    name, uid, generation = identity_of(raw)
    if name == NAMELESS:
        raise PolicyError(name, "Invalid", [("metadata.name", "a name is required")])
    expected = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND}
    wrong = [
        (key, f"{raw[key]!r:.60} should be {value!r}")
        for key, value in expected.items()
        if raw.get(key, value) != value
    ]
    if wrong:
        raise PolicyError(name, "Invalid", wrong)
    spec = raw.get("spec")
    if spec is None:
        raise PolicyError(name, "Invalid", [("spec", "a value is required")])
    if isinstance(spec, Mapping):
        _refuse_what_is_not_served(name, spec)
        spec = {key: value for key, value in spec.items() if key not in NOT_SERVED}
    try:
        decoded = decode(PolicySpec, spec, "spec")
    except ArgsError as error:
        raise PolicyError(name, "Invalid", error.problems) from error
    return SchedulerPolicy(name, uid, generation, decoded)


def _refuse_what_is_not_served(name: str, spec: Mapping[str, Any]) -> None:
    problems = [(f"spec.{key}", "is not supported by this version") for key in NOT_SERVED if spec.get(key)]
    plugins = spec.get("plugins")
    if isinstance(plugins, Mapping):
        problems += [
            problem for key in plugins if key in POD_GROUP_POINTS for problem in point_problems(key, "spec.plugins")
        ]
    if problems:
        raise PolicyError(name, "NotSupported", problems)


def _duplicates(names: Sequence[str], where: str) -> Iterator[Problem]:
    for i, name in enumerate(names):
        if name in names[:i]:
            yield f"{where}[{i}].name", f"{name!r} is there twice"


def _selector_problems(selector: Selector, where: str) -> Iterator[Problem]:
    for key, value in selector.match_labels.items():
        path = f"{where}.matchLabels.{key}" if key.isidentifier() else f"{where}.matchLabels[{key:.80}]"
        yield from _label_key_problems(key, path)
        if len(value) > _VALUE_LIMIT or not re.search(_LABEL_VALUE, value):
            yield path, f"{value!r:.80} cannot be a label's value: {_VALUE_RULE}"
    for i, expression in enumerate(selector.match_expressions):
        yield from _label_key_problems(expression.key, f"{where}.matchExpressions[{i}].key")
    try:
        selector.parse(where)
    except InvalidObjectError as error:
        yield error.where, error.problem


_VALUE_RULE: Final = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def _label_key_problems(key: str, where: str) -> Iterator[Problem]:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _PREFIX_LIMIT or not _SUBDOMAIN.fullmatch(prefix)):
        yield where, f"{key!r:.80} cannot be a label's key: what is before '/' must be a DNS subdomain in lower case"
    elif not _LABEL_NAME.fullmatch(name):
        yield where, f"{key!r:.80} cannot be a label's key: its name takes {_VALUE_RULE}"
