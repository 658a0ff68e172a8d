"""The registry of watched kinds: the one list of the built-in kinds that the scheduler reads.

From an entry here follow: the path and access check of the kind (`kube/kinds.py`) and its reflector (`kube/runtime.py`), what of an
object is kept (`engine/intake`), the group in labels of cluster events (`core/framework/cluster_events.py`), the field of a dump
(`simulator/world.py`), and that the sandbox serves it. To watch another kind, add it here, grant it in
`manifests/base/cluster-role.yaml` (a test compares the two), and read it in a plugin with `store.get(kind, ...)`.

Not here: pod groups, whose versions are discovered (`kube/pod_groups/served_apis.py`), and SchedulerPolicies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One built-in kind. `group` is empty for the core API.

    `plural_field`: the plural as a field name, such as `csiNodes`: the field of a dump that `podwright evaluate` reads, and in lower
    case the kind's name in URLs and RBAC. `required`: the scheduler cannot work without it. `updated`: plugins write objects back.
    `spec_fields`: if given, only these fields of `spec`, and no `status`, are kept.
    """

    kind: str
    group: str
    version: str
    plural_field: str
    namespaced: bool
    required: bool = False
    updated: bool = False
    spec_fields: tuple[str, ...] = ()

    @property
    def plural(self) -> str:
        """The kind's name in URLs and RBAC."""
        return self.plural_field.lower()


NODE_KIND: Final = WatchedKind("Node", "", "v1", "nodes", namespaced=False, required=True)
POD_KIND: Final = WatchedKind("Pod", "", "v1", "pods", namespaced=True, required=True)

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
)
"""The kinds of the object store, in the order in which a dump is read. Nodes and pods have tables of their own."""

WATCHED_KINDS: Final = (NODE_KIND, POD_KIND, *STORED_KINDS)

_VERSIONS: Final = ("resourceVersion", "generation")


def trimmed(kind: str, raw: Object) -> Object:
    """A copy without what is never read: `managedFields`, and all but `spec_fields` where the kind has them."""
    kept = dict(raw)
    metadata = dict(raw["metadata"])
    metadata.pop("managedFields", None)
    kept["metadata"] = metadata
    fields = _spec_fields(kind)
    if fields:
        kept.pop("status", None)
        spec = raw.get("spec")
        if isinstance(spec, Mapping):
            kept["spec"] = {name: spec.get(name) for name in fields}
    return kept


def unchanged(kind: str, before: Object, after: Object) -> bool:
    """Whether two trimmed versions of an object are the same to the scheduler.

    A new resourceVersion alone is no change of a kind with `spec_fields`. It is one of any other kind, which may be written back.
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
