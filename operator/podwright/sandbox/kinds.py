"""The served kinds: a built-in kind is one line of a table, and each version of a registered CRD is one `Kind`.

Invariant: objects are stored under `Kind.stored` without `kind` and `apiVersion`, so that several API versions (of a
CRD, or of Events) share one store. Read `discovery.py` next.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.watched_kinds import WATCHED_KINDS, WatchedKind

Obj = dict[str, Any]

# apiVersion plural Kind, N if namespaced, short names, subresources (!: POST only), flags (g: a changed spec increments
# the generation, a: in `kubectl get all`)
TABLE = """
v1 namespaces Namespace - ns status,finalize
v1 nodes Node - no status
v1 pods Pod N po status,binding,eviction ga
v1 services Service N svc status a
v1 events Event N ev -
v1 configmaps ConfigMap N cm -
v1 secrets Secret N - -
v1 serviceaccounts ServiceAccount N sa -
v1 persistentvolumes PersistentVolume - pv status
v1 persistentvolumeclaims PersistentVolumeClaim N pvc status
v1 replicationcontrollers ReplicationController N rc status,scale ga
v1 bindings Binding N - !
apps/v1 deployments Deployment N deploy status,scale ga
apps/v1 replicasets ReplicaSet N rs status,scale ga
apps/v1 statefulsets StatefulSet N sts status,scale ga
apps/v1 daemonsets DaemonSet N ds status ga
batch/v1 jobs Job N - status ga
policy/v1 poddisruptionbudgets PodDisruptionBudget N pdb status g
storage.k8s.io/v1 storageclasses StorageClass - sc -
storage.k8s.io/v1 csinodes CSINode - - -
storage.k8s.io/v1 csidrivers CSIDriver - - -
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N - -
storage.k8s.io/v1 volumeattachments VolumeAttachment - - status
coordination.k8s.io/v1 leases Lease N - -
scheduling.k8s.io/v1 priorityclasses PriorityClass - pc -
events.k8s.io/v1 events Event N ev -
resource.k8s.io/v1 deviceclasses DeviceClass - - - g
resource.k8s.io/v1 resourceclaims ResourceClaim N - status
resource.k8s.io/v1 resourceslices ResourceSlice - - - g
resource.k8s.io/v1 devicetaintrules DeviceTaintRule - - status g
rbac.authorization.k8s.io/v1 roles Role N - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole - - -
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding - - -
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview - - !
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition - crd,crds status g
"""
EVENT_FIELDS = {  # v1 field -> events.k8s.io/v1 field; Events are stored as v1
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    **{
        name: f"deprecated{name[0].upper()}{name[1:]}"
        for name in ("source", "firstTimestamp", "lastTimestamp", "count")
    },
}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One resource of one API version: its discovery data, and how its objects are stored."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...]
    subresources: frozenset[str]
    post_only: bool = False
    generation: bool = False
    categories: tuple[str, ...] = ()
    crd: Obj | None = None  # this version's entry in a CRD's spec.versions
    schema: Any = None  # schemas.Schema of a custom kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """For example `deployments.apps`: the name in messages, and the key in the store."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def renamed(self) -> bool:
        return self.group == "events.k8s.io"

    @property
    def stored(self) -> str:
        return "events" if self.renamed else self.resource

    def details(self, name: str) -> Obj:
        return {"name": name, "kind": self.plural} | ({"group": self.group} if self.group else {})

    def outward(self, obj: Obj) -> Obj:
        """The stored object in this API version, without `kind` and `apiVersion`."""
        return {EVENT_FIELDS.get(key, key): value for key, value in obj.items()} if self.renamed else obj

    def inward(self, obj: Obj) -> Obj:
        """A client's object in stored form, without `kind` and `apiVersion`."""
        names = {name: stored for stored, name in EVENT_FIELDS.items()} if self.renamed else {}
        return {names.get(key, key): value for key, value in obj.items() if key not in ("kind", "apiVersion")}

    def encode(self, obj: Obj, data: bytes | None = None) -> bytes:
        """The object as JSON with `kind` and `apiVersion`. `data` is the JSON of the stored object, if available."""
        if data is None or self.renamed:
            data = orjson.dumps(self.outward(obj))
        return b'{"kind":"%b","apiVersion":"%b",%b' % (self.kind.encode(), self.api_version.encode(), data[1:])


class Kinds:
    """All kinds by (group, version, plural). CRDs add and remove kinds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for line in TABLE.strip().splitlines():
            self.add(_from_line(*line.split()))
        for watched in WATCHED_KINDS:  # also serve what the scheduler watches but TABLE lacks
            if self.find(watched.group, watched.version, watched.plural) is None:
                self.add(_plain(watched))

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def add(self, kind: Kind) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind

    def remove(self, group: str, plural: str) -> None:
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            del self._kinds[key]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def named(self, resource: str) -> Kind:
        """The first kind with this resource name, for example `deployments.apps`. Raises StopIteration without such a
        kind.
        """
        return next(kind for kind in self if kind.resource == resource)


def _plain(watched: WatchedKind) -> Kind:
    return Kind(
        group=watched.group,
        version=watched.version,
        plural=watched.plural,
        kind=watched.kind,
        namespaced=watched.namespaced,
        short_names=(),
        subresources=frozenset(),
    )


def _from_line(api_version: str, plural: str, kind: str, scope: str, shorts: str, subs: str, flags: str = "") -> Kind:
    group, _, version = api_version.rpartition("/")
    short_names = () if shorts == "-" else tuple(shorts.split(","))
    subresources = frozenset(() if subs in "-!" else subs.split(","))
    categories = ("all",) if "a" in flags else ()
    namespaced, post_only, generation = scope == "N", subs == "!", "g" in flags
    return Kind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        short_names=short_names,
        subresources=subresources,
        post_only=post_only,
        generation=generation,
        categories=categories,
    )
