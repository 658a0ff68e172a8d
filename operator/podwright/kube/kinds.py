"""The API resources that the scheduler reads and writes, with their URL paths.

Those that it watches come from the registry in `core/objects/watched_kinds.py`. `kube/client/access.py` finds out which
of them the API server serves and RBAC allows.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod_group import GROVE_API, KAI_API, PLUGINS_API, VOLCANO_API, WORKLOAD_API
from podwright.core.objects.watched_kinds import PRIORITY_CLASS, STORED_KINDS, WATCHED_KINDS, WatchedKind


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one version of its API. `group` is empty for the core API."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def root(self) -> str:
        """The URL path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def collection(self) -> str:
        """The URL path of all objects, in all namespaces."""
        return f"{self.root}/{self.plural}"

    def collection_in(self, namespace: str) -> str:
        """The URL path of a namespace's objects. Raises ClusterError if the name is not a valid path segment."""
        return f"{self.root}/namespaces/{_segment(namespace)}/{self.plural}"

    def path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of one of its subresources. Raises ClusterError if the name is not a valid
        path segment.
        """
        parent = self.collection_in(namespace) if self.namespaced else self.collection
        own = f"{parent}/{_segment(name)}"
        return f"{own}/{subresource}" if subresource else own


@dataclass(frozen=True, slots=True)
class InNamespace(Resource):
    """A kind of which only the objects in one namespace are read. Its `collection` has these."""

    namespace: str = ""

    @property
    def collection(self) -> str:
        """The URL path of the namespace's objects."""
        return self.collection_in(self.namespace)


def params_in(namespace: str) -> InNamespace:
    """The ConfigMaps that policies may take params from."""
    return InNamespace("ConfigMap", "", "v1", "configmaps", namespaced=True, namespace=namespace)


_NEEDS_NO_QUOTES: Final = re.compile(r"[A-Za-z0-9.-]+").fullmatch
"""True if a name has only characters that stay as they are in a path, as nearly all names do."""


def _segment(name: str) -> str:
    """The name as one segment of a path: whatever it is, the path leads nowhere else."""
    if name in (".", ".."):
        raise ClusterError(f'"{name}" is no name of an object')
    return name if _NEEDS_NO_QUOTES(name) else quote(name, safe="")


def _resource(watched: WatchedKind) -> Resource:
    return Resource(watched.kind, watched.group, watched.version, watched.plural, watched.namespaced)


NODE_METRICS: Final = Resource("NodeMetrics", "metrics.k8s.io", "v1beta1", "nodes", namespaced=False)
EVENT: Final = Resource("Event", "events.k8s.io", "v1", "events", namespaced=True)
POLICY: Final = Resource("SchedulerPolicy", "podwright.dev", "v1alpha1", "schedulerpolicies", namespaced=False)
LOCAL_POLICY: Final = Resource(
    "LocalSchedulerPolicy", "podwright.dev", "v1alpha1", "localschedulerpolicies", namespaced=True
)
QUEUE: Final = Resource("SchedulingQueue", "podwright.dev", "v1alpha1", "schedulingqueues", namespaced=False)
KAI_QUEUE: Final = Resource("Queue", "scheduling.run.ai", "v2", "queues", namespaced=False)
VOLCANO_QUEUE: Final = Resource("Queue", "scheduling.volcano.sh", "v1beta1", "queues", namespaced=False)
QUEUE_VIEW: Final = Resource("QueueView", "podwright.dev", "v1alpha1", "queueviews", namespaced=True)
KUEUE: Final = "kueue.x-k8s.io"
KUEUE_WORKLOAD: Final = Resource("Workload", KUEUE, "v1beta2", "workloads", namespaced=True)
KUEUE_FLAVOR: Final = Resource("ResourceFlavor", KUEUE, "v1beta2", "resourceflavors", namespaced=False)
RESERVATION: Final = Resource("Reservation", "podwright.dev", "v1alpha1", "reservations", namespaced=False)
REBALANCE_POLICY: Final = Resource(
    "RebalancePolicy", "podwright.dev", "v1alpha1", "rebalancepolicies", namespaced=False
)
GROUPING: Final = Resource("WorkloadGrouping", "podwright.dev", "v1alpha1", "workloadgroupings", namespaced=False)
TOPOLOGY: Final = Resource("Topology", "podwright.dev", "v1alpha1", "topologies", namespaced=False)
KUEUE_TOPOLOGY: Final = tuple(
    Resource("Topology", KUEUE, version, "topologies", namespaced=False) for version in ("v1beta2", "v1beta1")
)
KAI_TOPOLOGY: Final = (Resource("Topology", "kai.scheduler", "v1alpha1", "topologies", namespaced=False),)
HYPER_NODE: Final = Resource("HyperNode", "topology.volcano.sh", "v1alpha1", "hypernodes", namespaced=False)
CRD: Final = Resource(
    "CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)

POD_GROUPS: Final = tuple(
    Resource("PodGroup", WORKLOAD_API, version, "podgroups", namespaced=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Versions of the Workload API's PodGroup, newest first: Kubernetes 1.37 serves the first two, 1.36 the last."""
COMPOSITE_POD_GROUPS: Final = (
    Resource("CompositePodGroup", WORKLOAD_API, "v1alpha3", "compositepodgroups", namespaced=True),
)
PLUGINS_POD_GROUPS: Final = (Resource("PodGroup", PLUGINS_API, "v1alpha1", "podgroups", namespaced=True),)
"""Versions of the custom resource of the scheduler-plugins project."""

VOLCANO_POD_GROUPS: Final = (Resource("PodGroup", VOLCANO_API, "v1beta1", "podgroups", namespaced=True),)
POD_GANGS: Final = (Resource("PodGang", GROVE_API, "v1alpha1", "podgangs", namespaced=True),)
KAI_POD_GROUPS: Final = (Resource("PodGroup", KAI_API, "v2alpha2", "podgroups", namespaced=True),)

WATCHED: Final = {watched.kind: _resource(watched) for watched in WATCHED_KINDS}
"""The resources of the registry of watched kinds, by kind."""
POD: Final = WATCHED["Pod"]
NODE: Final = WATCHED["Node"]
REQUIRED: Final = tuple(WATCHED[watched.kind] for watched in WATCHED_KINDS if watched.required)
"""The scheduler ends if it cannot read these."""
STORED: Final = tuple(WATCHED[watched.kind] for watched in STORED_KINDS if not watched.on_demand)
"""The kinds of the core's object store that are always watched."""
PRIORITY_CLASSES: Final = WATCHED[PRIORITY_CLASS]

BY_KIND: Final = {
    **WATCHED,
    **{
        resource.kind: resource
        for resource in (
            *(EVENT, POLICY, LOCAL_POLICY, QUEUE, QUEUE_VIEW, RESERVATION, REBALANCE_POLICY, GROUPING, TOPOLOGY, CRD),
        )
    },
}
"""All but pod groups, other queues and other topologies, which several APIs have."""
