"""The kinds that we read and write: where each lives in the API, and how the core calls it.

`STORED` has the kinds of the core's object store; what of them exists and may be read is for `access` to find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podwright.core.objects.pod_group import PLUGINS_API, WORKLOAD_API


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind at one version. `group` is empty for the core API."""

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
        """The URL path of a namespace's objects."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}"

    def path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of one of its subresources."""
        parent = self.collection_in(namespace) if self.namespaced else self.collection
        return f"{parent}/{name}/{subresource}" if subresource else f"{parent}/{name}"


POD: Final = Resource("Pod", "", "v1", "pods", namespaced=True)
NODE: Final = Resource("Node", "", "v1", "nodes", namespaced=False)
EVENT: Final = Resource("Event", "events.k8s.io", "v1", "events", namespaced=True)
POLICY: Final = Resource("SchedulerPolicy", "podwright.dev", "v1alpha1", "schedulerpolicies", namespaced=False)
CRD: Final = Resource(
    "CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)

POD_GROUPS: Final = tuple(
    Resource("PodGroup", WORKLOAD_API, version, "podgroups", namespaced=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""The Workload API's, the best version first: 1.37 has the first two, 1.36 the last."""
PLUGINS_POD_GROUPS: Final = (Resource("PodGroup", PLUGINS_API, "v1alpha1", "podgroups", namespaced=True),)
"""The custom resource of the scheduler-plugins project."""

STORED: Final = (
    Resource("Namespace", "", "v1", "namespaces", namespaced=False),
    Resource("Service", "", "v1", "services", namespaced=True),
    Resource("ReplicationController", "", "v1", "replicationcontrollers", namespaced=True),
    Resource("ReplicaSet", "apps", "v1", "replicasets", namespaced=True),
    Resource("StatefulSet", "apps", "v1", "statefulsets", namespaced=True),
    Resource("PersistentVolume", "", "v1", "persistentvolumes", namespaced=False),
    Resource("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", namespaced=True),
    Resource("StorageClass", "storage.k8s.io", "v1", "storageclasses", namespaced=False),
    Resource("CSINode", "storage.k8s.io", "v1", "csinodes", namespaced=False),
    Resource("CSIDriver", "storage.k8s.io", "v1", "csidrivers", namespaced=False),
    Resource("CSIStorageCapacity", "storage.k8s.io", "v1", "csistoragecapacities", namespaced=True),
    Resource("VolumeAttachment", "storage.k8s.io", "v1", "volumeattachments", namespaced=False),
    Resource("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", namespaced=True),
    Resource("DeviceClass", "resource.k8s.io", "v1", "deviceclasses", namespaced=False),
)

BY_KIND: Final = {resource.kind: resource for resource in (POD, NODE, EVENT, POLICY, CRD, *STORED)}
