"""Which of Kubernetes' [sig-scheduling] specs are run, and which are left out and why.

A spec is named by a part of its full text that no other has. Read `suite` next: how they are run.
"""

from collections.abc import Mapping

LEFT_OUT: Mapping[str, str] = {
    "validates that there exists conflict between pods with same hostPort": (
        "it waits 5 minutes for a pod that must not start, and then asserts nothing about it"
    ),
}
"""Specs that run with `--all` only, and why."""

SLOW = (
    "validates various priority Pods preempt expectedly with the async preemption",
    "runs ReplicaSets to verify preemption running path",
    "should spread the pods of a replication controller across zones",
)
"""The specs that take longest; `make e2e` runs them, the tests do not, nor does `--quick`."""

FEWEST = 20
"""So many specs have to be asked of Podwright, unless some were chosen: with fewer something else went wrong, and all is not well."""

POD_GROUPS = "FeatureGate:GenericWorkload"
"""The label of the specs of pod groups, a feature that a Kubernetes cluster has off by default."""
