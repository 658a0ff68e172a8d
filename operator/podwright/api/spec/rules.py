"""`spec.rules`, `spec.params` and `spec.paramsFrom` of a policy: filters and scores written in CEL, and the texts that
they read.

This module has the fields with their bounds. `core/plugins/rules` checks the expressions when the policy is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from podwright.core.framework.validation import Rule, declared, key_path, unique_by, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import mapping_at

MAX_EXPRESSION: Final = 10 * 1024
"""The longest expression, in characters. It is the same as for device selectors in Kubernetes."""
MAX_RULES: Final = 64
"""How many filters, and how many scores, a policy may have."""
MAX_PARAMS: Final = 64
"""How many params a policy itself may have, and how many its ConfigMap may have."""
MAX_PARAM: Final = 4096
"""The longest value of a param, in characters."""
_NAME: Final[Mapping[str, Any]] = {"minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_PARAM: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_CONFIG_MAP: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Normalization = Literal["None", "Max", "MinMax"]


@dataclass(frozen=True, slots=True)
class FilterRule:
    name: str = declared("The rule's name in metrics, in the status and in events. Unique in its list.", **_NAME)
    expression: str = declared(
        "A CEL expression of type bool over pod, node, namespaceObject, policy and params. A node for which it is not "
        "true is rejected.",
        minLength=1,
        maxLength=MAX_EXPRESSION,
    )
    message: str = declared(
        "Why a node is rejected, in the words of events FailedScheduling, which put the number of nodes before it: "
        "`node(s) had another tier`. Default: `node(s) didn't satisfy rule NAME`.",
        default="",
        rules=[
            Rule(
                violations=lambda self: () if self.isprintable() else ("",),
                message="has characters that cannot be printed",
            )
        ],
        maxLength=256,
        pattern=r"^[^\x00-\x1f\x7f]*$",
    )

    @property
    def reason(self) -> str:
        """The message, or a default text that names the rule."""
        return self.message or f"node(s) didn't satisfy rule {self.name}"


@dataclass(frozen=True, slots=True)
class ScoreRule:
    name: str = declared("The rule's name in metrics, in the status and in events. Unique in its list.", **_NAME)
    expression: str = declared(
        "A CEL expression of type int, uint or double over pod, node, namespaceObject, policy and params: how well the "
        "node suits the pod.",
        minLength=1,
        maxLength=MAX_EXPRESSION,
    )
    weight: int = whole_number("The weight of the score, as that of a plugin.", 1, 100, default=1)
    normalize: Normalization = declared(
        "How values become scores from 0 to 100. None: they are scores; less than 0 counts as 0, more than 100 as 100. "
        "Max: the greatest value among the feasible nodes becomes 100, and 0 stays 0. MinMax: the least value becomes "
        "0, the greatest 100.",
        default="None",
    )


@dataclass(frozen=True, slots=True)
class Rules:
    filters: tuple[FilterRule, ...] = declared(
        "Filters that run after those of the plugins. A node must pass all of them.",
        default=(),
        maxItems=MAX_RULES,
        **unique_by("name"),
    )
    scores: tuple[ScoreRule, ...] = declared(
        "Scores that are added to those of the plugins, times their weights.",
        default=(),
        maxItems=MAX_RULES,
        **unique_by("name"),
    )

    def __bool__(self) -> bool:
        return bool(self.filters or self.scores)


@dataclass(frozen=True, slots=True)
class ConfigMapReference:
    name: str = declared("The name of the ConfigMap.", minLength=1, maxLength=253, pattern=_CONFIG_MAP)


@dataclass(frozen=True, slots=True)
class ParamsFrom:
    config_map_ref: ConfigMapReference = declared(
        "A ConfigMap in the operator's namespace, or of a LocalSchedulerPolicy in its own. Its `data` are the params."
    )


def params_field() -> Any:
    """The field `params`."""
    return declared(
        "Texts for the rules: `policy.params`, and `params` together with those of `paramsFrom`.",
        default_factory=dict,
        rules=[
            Rule(
                violations=lambda self: (key_path(key) for key in self if not _PARAM.fullmatch(key)),
                message="is not a key: expected at most 253 letters, digits, '-', '_' and '.', as in a ConfigMap",
            )
        ],
        maxProperties=MAX_PARAMS,
        additionalProperties={"maxLength": MAX_PARAM},
    )


def config_map_problem(raw: Mapping[str, Any]) -> str:
    """Why a team's ConfigMap is refused as a source of params; "" if it is accepted."""
    texts = mapping_at(raw, "data")
    if len(texts) > MAX_PARAMS:
        return f"has {len(texts)} keys, more than {MAX_PARAMS}"
    for key, value in texts.items():
        if isinstance(value, str) and len(value) > MAX_PARAM:
            return f"has {len(value)} characters under {key}, more than {MAX_PARAM}"
    return ""
