"""The metrics about policies, a part of the catalogue. See `metrics`."""

from __future__ import annotations

from typing import Final

from podwright.engine.records.families import Counter, Gauge

POLICIES: Final = Gauge(
    "podwright_policies", "SchedulerPolicies by whether their newest generation is accepted.", ("state",)
)
POLICY_DECISIONS: Final = Counter("podwright_policy_decisions", "Decisions about pods, by policy.", ("policy",))
POLICY_ERRORS: Final = Counter(
    "podwright_policy_errors", "Exceptions of plugins and errors of rules while a policy decided.", ("policy",)
)
POLICY_PENDING: Final = Gauge(
    "podwright_policy_pending_pods", "Pending pods by the policy of their last attempt.", ("policy",)
)
SHADOW_COMPARISONS: Final = Counter(
    "podwright_shadow_comparisons",
    "Decisions of policies in shadow mode that were compared with the other scheduler's, by outcome.",
    ("policy", "outcome"),
)
SHADOW_SKIPPED: Final = Counter(
    "podwright_shadow_skipped_pods",
    "Pods that a policy in shadow mode did not compare, by reason.",
    ("policy", "reason"),
)
SHADOW_UNPLACED: Final = Gauge(
    "podwright_shadow_unplaced_pods",
    "Pods that their scheduler cannot place, by what a policy in shadow mode says: fits or waits.",
    ("policy", "verdict"),
)
SHADOW_WAITING: Final = Gauge(
    "podwright_shadow_waiting_pods", "Pods with nodes that wait to be compared by policies in shadow mode."
)
SHADOW_UTILIZATION: Final = Gauge(
    "podwright_shadow_utilization_ratio",
    "The share of a resource that is requested on nodes in use, in the cluster and as if a policy in shadow mode had "
    "decided.",
    ("policy", "resource", "where"),
)
SHADOW_NODES_IN_USE: Final = Gauge(
    "podwright_shadow_nodes_in_use",
    "Nodes with pods that do not belong to the node itself, in the cluster and as if a policy in shadow mode had "
    "decided.",
    ("policy", "where"),
)
SHADOW_MILLISECONDS: Final = Counter(
    "podwright_shadow_milliseconds", "How long the policies in shadow mode have decided, in milliseconds."
)
OVER_BUDGET: Final = Gauge("podwright_local_policies_over_budget", "LocalSchedulerPolicies over their time budget.")
SLOW_LANE: Final = Counter(
    "podwright_local_policy_slowed_pods",
    "Pods that were sent to the lane of costly pods because their LocalSchedulerPolicy is over its budget.",
)
LOCAL_POLICIES: Final = Gauge(
    "podwright_local_policies",
    "LocalSchedulerPolicies by whether their newest generation is accepted.",
    ("state",),
)
