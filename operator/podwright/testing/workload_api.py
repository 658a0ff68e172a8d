"""The versions of Kubernetes with PodGroups, and the options with which a control plane serves them:
`ControlPlane(**api.options)`.

They are off by default. Sources: `kube_features.go` of each release, and the published `k8s.io/api`.
"""

from collections.abc import Mapping
from typing import Any

from podwright.core.objects.dataclass import dataclass

COMPOSITES = "scheduling.k8s.io/v1alpha3"
"""The API version of CompositePodGroups."""


@dataclass(frozen=True, slots=True)
class WorkloadApi:
    """The PodGroups of Kubernetes' Workload API. `version`: the newest that is served, for example
    `scheduling.k8s.io/v1beta1`.

    `controllers`: those without which a deleted PodGroup stays, because it keeps its finalizer.
    """

    version: str
    feature_gates: tuple[str, ...]
    controllers: tuple[str, ...] = ()

    @property
    def options(self) -> Mapping[str, Any]:
        """The fields of `Options` that make a control plane serve them."""
        return {
            "feature_gates": dict.fromkeys(self.feature_gates, True),
            "runtime_config": {self.version: True},
        }

    @property
    def composite_options(self) -> Mapping[str, Any]:
        """The same, with CompositePodGroups, which 1.37 is the first to have."""
        gates = dict.fromkeys((*self.feature_gates, "CompositePodGroup"), True)
        return {"feature_gates": gates, "runtime_config": {self.version: True, COMPOSITES: True}}


_BY_MINOR: Mapping[int, WorkloadApi] = {
    36: WorkloadApi(
        "scheduling.k8s.io/v1alpha2",
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"),
    ),
    37: WorkloadApi(
        "scheduling.k8s.io/v1beta1",
        ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
        ("podgroup-protection-controller",),
    ),
}


def workload_api(minor: int) -> WorkloadApi | None:
    """The Workload API of this minor version of Kubernetes; None before 1.36, which has no PodGroups."""
    return _BY_MINOR.get(min(minor, max(_BY_MINOR)))
