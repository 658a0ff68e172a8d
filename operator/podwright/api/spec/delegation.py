"""`spec.delegation` of a SchedulerPolicy: what LocalSchedulerPolicies may do for the pods about which that policy would
decide.

Here are the fields. Whether a local policy stays within them is checked in podwright/api/local_compile.py.
"""

from __future__ import annotations

from typing import Final, Literal

from podwright.api.spec.signals import signal_names
from podwright.api.spec.strategy import DelegatedStrategy
from podwright.core.framework.validation import SET, declared, whole_number
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration

DEFAULT_BUDGET: Final = "1ms"
_DURATION: Final = r"^[1-9][0-9]{0,3}(us|ms)$"
NodeField = Literal["labels", "taints", "annotations", "images"]
"""The fields of `node` that a local rule reads only if they are delegated: their texts may be none of the team's
business.
"""


@dataclass(frozen=True, slots=True)
class Delegation:
    strategies: tuple[DelegatedStrategy, ...] = declared(
        "The strategies that local policies may choose.", default=(), maxItems=16, **SET
    )
    plugins: tuple[str, ...] = declared(
        "The plugins that local policies may enable, disable, weigh and give arguments to. `*`: all of them.",
        default=(),
        maxItems=64,
        items={"minLength": 1, "maxLength": 253},
        **SET,
    )
    rules: bool = declared("Whether local policies may have `rules` in CEL.", default=False)
    max_rules: int = whole_number(
        "How many rules a local policy may have, filters and scores together.", 1, 128, default=10
    )
    max_weight: int = whole_number(
        "The greatest weight that a local policy may give to a score rule or to a plugin.", 1, 1_000_000, default=10
    )
    node_fields: tuple[NodeField, ...] = declared(
        "Which of these fields of `node` the rules of local policies may read. They may read all other fields.",
        default=("labels", "taints"),
        maxItems=4,
        **SET,
    )
    rebalancing: bool = declared(
        "Whether local policies may exempt pods from rebalancing (`rebalancing: Never`).", default=False
    )
    signals: tuple[str, ...] = signal_names("The signals that local policies may name.")
    decision_budget: str = declared(
        "How much time what a local policy adds may take in a decision, on average, in us or ms. Of a policy that "
        "takes longer, the scores count 0 and the pods wait in a slow lane for a minute. Its filters always hold.",
        default=DEFAULT_BUDGET,
        pattern=_DURATION,
        maxLength=6,
    )

    @property
    def budget_seconds(self) -> float:
        return parse_duration(self.decision_budget)
