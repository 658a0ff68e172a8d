"""The registry of watched kinds: the one list of the built-in kinds that the scheduler reads.

An entry defines the kind's path and access check (`kube/kinds.py`), its reflector (`kube/runtime.py`), the fields that
are stored (`engine/intake`), the group in labels of cluster events (`core/framework/cluster_events.py`), the field of a
dump (`simulator/world.py`), what `podwright evaluate --kinds` prints (`simulator/evaluations/dump.py`) and the API that
the sandbox serves. To watch another kind, add it here, grant it in `manifests/base/cluster-role.yaml` (a test compares
the two), and read it in a plugin with `store.get(kind, ...)`.

Pod groups and queues are not in this list, because a cluster may have them or not (`kube/watch/served_kinds.py`), and
neither are SchedulerPolicies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One built-in kind. `group` is empty for the core API.

    `plural_field`: the plural as a field name, such as `csiNodes`, which is the field of a dump that `podwright
    evaluate` reads. `required`: the scheduler cannot work without it. `updated`: plugins update objects of this kind.
    `spec_fields`: if given, only these fields of `spec`, and no `status`, are stored. `on_demand`: watched only while
    the API server serves kinds that name its objects, by a door.
    """

    kind: str
    group: str
    version: str
    plural_field: str
    namespaced: bool
    required: bool = False
    updated: bool = False
    spec_fields: tuple[str, ...] = ()
    on_demand: bool = False

    @property
    def plural(self) -> str:
        """The kind's name in URLs and RBAC, in lower case."""
        return self.plural_field.lower()


NODE_KIND: Final = WatchedKind("Node", "", "v1", "nodes", namespaced=False, required=True)
POD_KIND: Final = WatchedKind("Pod", "", "v1", "pods", namespaced=True, required=True)
PRIORITY_CLASS: Final = "PriorityClass"

_SELECTOR: Final = ("selector",)
STORED_KINDS: Final = (
    WatchedKind("Namespace", "", "v1", "namespaces", namespaced=False),
    WatchedKind("Service", "", "v1", "services", namespaced=True),
    WatchedKind("ReplicationController", "", "v1", "replicationControllers", namespaced=True, spec_fields=_SELECTOR),
    WatchedKind("ReplicaSet", "apps", "v1", "replicaSets", namespaced=True, spec_fields=_SELECTOR),
    WatchedKind("StatefulSet", "apps", "v1", "statefulSets", namespaced=True, spec_fields=_SELECTOR),
    WatchedKind("PersistentVolume", "", "v1", "persistentVolumes", namespaced=False, updated=True),
    WatchedKind("PersistentVolumeClaim", "", "v1", "persistentVolumeClaims", namespaced=True, updated=True),
    WatchedKind("StorageClass", "storage.k8s.io", "v1", "storageClasses", namespaced=False),
    WatchedKind("CSINode", "storage.k8s.io", "v1", "csiNodes", namespaced=False),
    WatchedKind("CSIDriver", "storage.k8s.io", "v1", "csiDrivers", namespaced=False),
    WatchedKind("CSIStorageCapacity", "storage.k8s.io", "v1", "csiStorageCapacities", namespaced=True),
    WatchedKind("VolumeAttachment", "storage.k8s.io", "v1", "volumeAttachments", namespaced=False),
    WatchedKind("PodDisruptionBudget", "policy", "v1", "podDisruptionBudgets", namespaced=True),
    WatchedKind("DeviceClass", "resource.k8s.io", "v1", "deviceClasses", namespaced=False),
    WatchedKind("ResourceSlice", "resource.k8s.io", "v1", "resourceSlices", namespaced=False),
    WatchedKind("ResourceClaim", "resource.k8s.io", "v1", "resourceClaims", namespaced=True),
    WatchedKind("DeviceTaintRule", "resource.k8s.io", "v1", "deviceTaintRules", namespaced=False),
    WatchedKind(PRIORITY_CLASS, "scheduling.k8s.io", "v1", "priorityClasses", namespaced=False, on_demand=True),
)
"""The kinds of the object store, in the order in which a dump is read. Nodes and pods are stored elsewhere."""

WATCHED_KINDS: Final = (NODE_KIND, POD_KIND, *STORED_KINDS)

_VERSIONS: Final = ("resourceVersion", "generation")


def trimmed(kind: str, raw: Object) -> Object:
    """A copy without the fields that are never read: `managedFields`, and all but `spec_fields` if the kind has
    them.
    """
    copy = dict(raw)
    metadata = dict(raw["metadata"])
    metadata.pop("managedFields", None)
    copy["metadata"] = metadata
    fields = _spec_fields(kind)
    if fields:
        copy.pop("status", None)
        spec = raw.get("spec")
        if isinstance(spec, Mapping):
            copy["spec"] = {name: spec.get(name) for name in fields}
    return copy


def unchanged(kind: str, before: Object, after: Object) -> bool:
    """True if two trimmed versions of an object are equal to the scheduler.

    For a kind with `spec_fields`, a new resourceVersion alone is not a change. For any other kind it is, because
    updates of an object need its resourceVersion.
    """
    old, new = before["metadata"], after["metadata"]
    if old.get("resourceVersion") == new.get("resourceVersion"):
        return before == after
    if not _spec_fields(kind) or before.get("spec") != after.get("spec"):
        return False
    return {k: v for k, v in old.items() if k not in _VERSIONS} == {k: v for k, v in new.items() if k not in _VERSIONS}


@cache
def _spec_fields(kind: str) -> tuple[str, ...]:
    return next((watched.spec_fields for watched in STORED_KINDS if watched.kind == kind), ())
