"""Which of Kubernetes' [sig-scheduling] specs are left out, and why.

A unique part of its full text names a spec. Read `suite` next, which runs them.
"""

from collections.abc import Mapping

LEFT_OUT: Mapping[str, str] = {
    "validates that there exists conflict between pods with same hostPort": (
        "waits 5 minutes for a pod that must not start, and then asserts nothing about it"
    ),
}
"""The specs that run only with `--all`, and the reasons."""

SLOW = (
    "validates various priority Pods preempt expectedly with the async preemption",
    "runs ReplicaSets to verify preemption running path",
    "should spread the pods of a replication controller across zones",
)
"""The slowest specs. `make e2e` runs them; the tests and `--quick` do not."""

MINIMUM = 20
"""Without `--focus`, at least this many specs must pass with kube-scheduler. Otherwise the run itself is faulty."""

POD_GROUPS = "FeatureGate:GenericWorkload"
"""The label of the specs of pod groups, which Kubernetes disables by default."""
