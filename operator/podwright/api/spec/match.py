"""`spec.match` of a SchedulerPolicy: which pods a policy is for, by their namespaces, labels and priority classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from podwright.core.framework.args import encode
from podwright.core.framework.validation import ATOMIC, SET, Rule, declared, key_path
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import LabelSelector, parse_label_selector

_LABEL_VALUE: Final[Mapping[str, Any]] = {"maxLength": 63, "pattern": r"^([a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$"}
QUALIFIED_NAME: Final = r"^([a-z0-9A-Z]([-a-z0-9A-Z.]*[a-z0-9A-Z])?/)?[a-z0-9A-Z]([-a-z0-9A-Z_.]*[a-z0-9A-Z])?$"
_LABEL_KEY: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?"
)
_NO_LABEL_KEY: Final = (
    "is not a label key: expected a name of at most 63 letters, digits, '-', '_' and '.' with a letter or digit at "
    "both "
    "ends, optionally after a DNS subdomain in lower case and '/'"
)


NAMESPACE: Final[Mapping[str, Any]] = {"maxLength": 63, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_SUBDOMAIN: Final[Mapping[str, Any]] = {
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The data by which policies are selected: the parts of a pod that `match` reads, and the policy that the pod
    names, if any.
    """

    labels: Mapping[str, str]
    namespace_labels: Mapping[str, str]
    namespace: str = "default"
    priority_class: str = ""
    policy: str = ""

    @staticmethod
    def of(pod: PodInfo, namespace_labels: Mapping[str, str]) -> Subject:
        return Subject(pod.labels, namespace_labels, pod.namespace, pod.priority_class, pod.policy)


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement:
    key: str = declared("The label key.", minLength=1, maxLength=317, pattern=QUALIFIED_NAME)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = declared("How the label's value relates to `values`.")
    values: tuple[str, ...] = declared(
        "Required for In and NotIn, not allowed for Exists and DoesNotExist.",
        default=(),
        maxItems=64,
        items=_LABEL_VALUE,
        **SET,
    )

    RULES = (
        Rule(
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            violations=lambda self: () if (self.operator in ("In", "NotIn")) == bool(self.values) else (".values",),
            message="values are required for In and NotIn, and not allowed for Exists and DoesNotExist",
        ),
        Rule(
            violations=lambda self: () if _LABEL_KEY.fullmatch(self.key) else (".key",),
            message=_NO_LABEL_KEY,
        ),
    )


@dataclass(frozen=True, slots=True)
class Selector:
    match_labels: Mapping[str, str] = declared(
        "Labels that must all have these values.",
        default_factory=dict,
        rules=[
            Rule(
                violations=lambda self: (key_path(key) for key in self if not _LABEL_KEY.fullmatch(key)),
                message=_NO_LABEL_KEY,
            )
        ],
        maxProperties=64,
        additionalProperties=_LABEL_VALUE,
    )
    match_expressions: tuple[LabelSelectorRequirement, ...] = declared(
        "Requirements that must all hold as well.", default=(), maxItems=64, **ATOMIC
    )

    def parse(self, where: str) -> LabelSelector:
        return parse_label_selector(encode(self), where)


@dataclass(frozen=True, slots=True)
class Match:
    namespaces: tuple[str, ...] = declared(
        "Names of namespaces. Not given: every namespace.", default=(), maxItems=256, items=NAMESPACE, **SET
    )
    namespace_selector: Selector | None = declared(
        "Selects namespaces by their labels. Not given, or empty: every namespace.", default=None
    )
    pod_selector: Selector | None = declared(
        "Selects pods by their labels. Not given, or empty: every pod.", default=None
    )
    priority_classes: tuple[str, ...] = declared(
        "Names of PriorityClasses. Not given: pods with any PriorityClass, and with none.",
        default=(),
        maxItems=64,
        items=_SUBDOMAIN,
        **SET,
    )


@dataclass(frozen=True, slots=True)
class CompiledMatch:
    """`match`, prepared for comparing. A selector that is None matches everything; so do empty sets."""

    pods: LabelSelector | None = None
    namespaces: LabelSelector | None = None
    namespace_names: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()

    @staticmethod
    def of(match: Match) -> CompiledMatch:
        return CompiledMatch(
            pods=_selector(match.pod_selector),
            namespaces=_selector(match.namespace_selector),
            namespace_names=frozenset(match.namespaces),
            priority_classes=frozenset(match.priority_classes),
        )

    @property
    def all(self) -> bool:
        """True if `match` selects every pod."""
        return self.pods is None and not self.priority_classes and self.all_namespaces

    @property
    def all_namespaces(self) -> bool:
        return self.namespaces is None and not self.namespace_names

    def takes_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """True if `match` can select pods of this namespace."""
        if self.namespace_names and name not in self.namespace_names:
            return False
        return self.namespaces is None or self.namespaces.matches(labels)

    def matches(self, subject: Subject) -> bool:
        if self.priority_classes and subject.priority_class not in self.priority_classes:
            return False
        if not self.takes_namespace(subject.namespace, subject.namespace_labels):
            return False
        return self.pods is None or self.pods.matches(subject.labels)


def _selector(selector: Selector | None) -> LabelSelector | None:
    parsed = None if selector is None else selector.parse("spec.match")
    return None if parsed is None or parsed.empty else parsed
