"""LocalSchedulerPolicy v1alpha1: how a team lets the pods of its own namespace be scheduled, within the delegation of
the cluster's policy.

`parse_local_policy` decodes and validates with the dataclasses below, and podwright/api/crd.py derives the
CustomResourceDefinition from them. What a local policy may do is checked in podwright/api/local_compile.py: read that
next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal

from podwright.api.kube_scheduler_configuration import POINTS
from podwright.api.scheduler_policy import (
    NAMELESS,
    PODWRIGHT_SCHEDULER_NAME,
    SCHEDULER_NAME,
    Policy,
    PolicyError,
    PolicyPluginArgs,
    PolicyPluginSet,
    check_kind,
    decoded,
    identity_of,
    namespace_of,
)
from podwright.api.spec.load_aware import NEEDS_SIGNALS
from podwright.api.spec.match import CompiledMatch, Match, Selector
from podwright.api.spec.rules import ParamsFrom, Rules, params_field
from podwright.api.spec.signals import signal_names
from podwright.api.spec.strategy import Strategy
from podwright.core.framework.profile import Point
from podwright.core.framework.validation import Rule, declared, unique_by, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import mapping_at

LOCAL_KIND: Final = "LocalSchedulerPolicy"
LOCAL_PLURAL: Final = "localschedulerpolicies"
_CLAIM: Final = ("schedulerName", "match", "precedence")
MAX_RULES_TEXT: Final = 16 * 1024
"""The most characters of all expressions of a local policy together. Compiling that many takes some tenths of a second.
"""
_ADDING: Final = (Point.PRE_FILTER.key, Point.FILTER.key)
LOCAL_POINTS: Final[Mapping[str, str]] = {
    point.key: POINTS[point.key] for point in (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
}
"""The extension points whose plugins a local policy may change: of filters it may only add some."""
_GIVEN: Final = f"has(self.plugins) && ({' || '.join(f'has(self.plugins.{key})' for key in LOCAL_POINTS)})"


@dataclass(frozen=True, slots=True)
class LocalMatch:
    pod_selector: Selector | None = declared(
        "Selects pods by their labels. Not given, or empty: every pod of the namespace.", default=None
    )
    priority_classes: tuple[str, ...] = field(
        default=(), metadata=Match.__dataclass_fields__["priority_classes"].metadata
    )

    def compiled(self, namespace: str) -> CompiledMatch:
        """The compiled match, for pods of this namespace only."""
        match = CompiledMatch.of(Match(pod_selector=self.pod_selector, priority_classes=self.priority_classes))
        return CompiledMatch(match.pods, None, frozenset((namespace,)), match.priority_classes)


@dataclass(frozen=True, slots=True)
class LocalPolicySpec:
    scheduler_name: str = declared(
        "The policy is for pods of its namespace with this spec.schedulerName.",
        default=PODWRIGHT_SCHEDULER_NAME,
        maxLength=253,
        pattern=SCHEDULER_NAME,
    )
    match: LocalMatch = declared(
        "Narrows the policy to some of these pods. All that is given must match.", default=LocalMatch()
    )
    precedence: int = whole_number(
        "If several policies of the namespace match a pod, the greatest precedence wins, then the older policy, then "
        "the first name. Which SchedulerPolicy bounds them is decided before.",
        -1_000_000_000,
        1_000_000_000,
        default=0,
    )
    strategy: Strategy | None = declared("How to score nodes. Not given: as the SchedulerPolicy does.", default=None)
    plugins: Mapping[str, PolicyPluginSet] = declared(
        "For strategy type Custom: plugins that are merged into those of the SchedulerPolicy. Filters can be added, "
        "but not disabled.",
        default_factory=dict,
        keys=LOCAL_POINTS,
    )
    plugin_config: tuple[PolicyPluginArgs, ...] = declared(
        "Arguments of plugins that only score nodes under the SchedulerPolicy.",
        default=(),
        maxItems=64,
        **unique_by("name"),
    )
    params: Mapping[str, str] = params_field()
    params_from: ParamsFrom | None = declared(
        "A ConfigMap of the policy's own namespace with more params, which take precedence over `params`. The operator "
        "reads it only if a Role of the namespace lets it `get` the ConfigMap; the condition ParamsMissing says if not.",
        default=None,
    )
    signals: tuple[str, ...] = signal_names(
        "Names of the signals that the rules and the strategy read, of those that the SchedulerPolicy delegates."
    )
    rules: Rules = declared(
        "Filters in CEL, in addition to those of the SchedulerPolicy, and scores, which replace those of its rules. "
        "Their functions that count pods see only those of this namespace.",
        default=Rules(),
    )

    rebalancing: Literal["Allowed", "Never"] = declared(
        "Never: no RebalancePolicy moves these pods, if the SchedulerPolicy delegates that.", default="Allowed"
    )

    RULES = (
        NEEDS_SIGNALS,
        Rule(
            cel=f"(has(self.strategy) && self.strategy.type == 'Custom') == ({_GIVEN})",
            holds=lambda self: (self.strategy is not None and self.strategy.type == "Custom") == self.names_plugins,
            message="goes with strategy type Custom, and only with that",
            path=".plugins",
        ),
        Rule(
            violations=lambda self: (".rules",) if self.rules_text > MAX_RULES_TEXT else (),
            message=f"the expressions have more than {MAX_RULES_TEXT} characters together",
        ),
        Rule(
            violations=lambda self: (f".plugins.{key}" for key in self.plugins if key not in LOCAL_POINTS),
            message=f"is not for local policies: they have {', '.join(LOCAL_POINTS)}",
        ),
        Rule(
            cel=" && ".join(
                f"(!has(self.plugins) || !has(self.plugins.{key}) || !has(self.plugins.{key}.disabled))"
                for key in _ADDING
            ),
            violations=lambda self: (
                f".plugins.{key}.disabled" for key in _ADDING if key in self.plugins and self.plugins[key].disabled
            ),
            message="a local policy cannot disable filters",
            path=".plugins",
            reason="FieldValueForbidden",
        ),
    )

    @property
    def rules_text(self) -> int:
        """How many characters all expressions have together."""
        filters = sum(len(rule.expression) for rule in self.rules.filters)
        return filters + sum(len(rule.expression) for rule in self.rules.scores)

    @property
    def names_plugins(self) -> bool:
        return any(plugin_set.enabled or plugin_set.disabled for plugin_set in self.plugins.values())


LocalPolicy = Policy[LocalPolicySpec]


def local_key_of(raw: Mapping[str, Any]) -> str:
    """namespace/name of an object that may be malformed."""
    return f"{namespace_of(raw)}/{identity_of(raw)[0]}"


def parse_local_policy(raw: Mapping[str, Any]) -> LocalPolicy:
    """Decodes a LocalSchedulerPolicy object. Raises PolicyError naming the policy and every field that is wrong."""
    name = identity_of(raw)[0]
    if name == NAMELESS or not namespace_of(raw):
        raise PolicyError(name, "Invalid", [("metadata", "a name and a namespace are required")])
    check_kind(raw, LOCAL_KIND)
    return decoded(raw, LocalPolicySpec, raw.get("spec"))


def parse_local_claim(raw: Mapping[str, Any]) -> LocalPolicy:
    """Decodes only the fields that select pods. Raises PolicyError."""
    given = mapping_at(raw, "spec")
    return decoded(raw, LocalPolicySpec, {key: given[key] for key in _CLAIM if key in given})
