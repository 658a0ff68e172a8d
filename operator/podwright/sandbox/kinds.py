"""The kinds that are served: one line of a table each, and one `Kind` for each version of a registered CRD.

Invariant: objects are stored under `Kind.stored` without `kind` and `apiVersion`, so several views (versions of a
CRD, Events of two groups) share one store. Read `discovery.py` next.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Obj = dict[str, Any]

# apiVersion plural Kind scope(N: namespaced) shortNames subresources(!: POST only) flags(g: spec changes bump the generation, a: in `kubectl get all`)
TABLE = """
v1 namespaces Namespace - ns status,finalize
v1 nodes Node - no status
v1 pods Pod N po status,binding,eviction g a
v1 services Service N svc status a
v1 endpoints Endpoints N ep -
v1 events Event N ev -
v1 configmaps ConfigMap N cm -
v1 secrets Secret N - -
v1 serviceaccounts ServiceAccount N sa -
v1 persistentvolumes PersistentVolume - pv status
v1 persistentvolumeclaims PersistentVolumeClaim N pvc status
v1 replicationcontrollers ReplicationController N rc status,scale g a
v1 resourcequotas ResourceQuota N quota status
v1 limitranges LimitRange N limits -
v1 bindings Binding N - !
apps/v1 deployments Deployment N deploy status,scale g a
apps/v1 replicasets ReplicaSet N rs status,scale g a
apps/v1 statefulsets StatefulSet N sts status,scale g a
apps/v1 daemonsets DaemonSet N ds status g a
apps/v1 controllerrevisions ControllerRevision N - -
batch/v1 jobs Job N - status g a
batch/v1 cronjobs CronJob N cj status g a
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
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate N - -
resource.k8s.io/v1 resourceslices ResourceSlice - - - g
rbac.authorization.k8s.io/v1 roles Role N - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole - - -
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding - - -
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview - - !
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition - crd,crds status g
"""

# events.k8s.io/v1 name -> v1 name; the v1 form is stored.
EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One resource of one API version, as discovery shows it, and how its objects are stored."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    post_only: bool = False
    generation: bool = False
    categories: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    crd: Obj | None = None  # this version's entry in a CRD's spec.versions
    schema: Any = None  # schemas.Schema of a custom kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`deployments.apps`: how messages name it, and the name its objects are stored under."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored(self) -> str:
        return self.plural if self.renames else self.resource

    def details(self, name: str) -> Obj:
        return {"name": name, "group": self.group, "kind": self.plural}

    def outward(self, obj: Obj) -> Obj:
        """The stored object as this view's clients see it, without type."""
        names = {stored: name for name, stored in self.renames.items()}
        return {names.get(key, key): value for key, value in obj.items()} if names else obj

    def inward(self, obj: Obj) -> Obj:
        """A client's object as it is stored; what the client calls its type is dropped."""
        return {self.renames.get(key, key): value for key, value in obj.items() if key not in ("kind", "apiVersion")}

    def encode(self, obj: Obj, data: bytes | None = None) -> bytes:
        """The object as JSON with its type in front; `data` is the stored object's JSON, if it is at hand."""
        if data is None or self.renames:
            data = orjson.dumps(self.outward(obj))
        return b'{"kind":"%b","apiVersion":"%b",%b' % (self.kind.encode(), self.api_version.encode(), data[1:])


class Kinds:
    """All kinds by (group, version, plural); CRDs add and remove theirs."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for line in TABLE.strip().splitlines():
            self.add(_from_line(line))

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
        """The first kind served as `deployments.apps`, `pods`, …; KeyError if there is none."""
        for kind in self._kinds.values():
            if kind.resource == resource:
                return kind
        raise KeyError(resource)


def _from_line(line: str) -> Kind:
    api_version, plural, kind, scope, shorts, subresources, *flags = line.split()
    group, _, version = api_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=scope == "N",
        short_names=() if shorts == "-" else tuple(shorts.split(",")),
        subresources=frozenset() if subresources in "-!" else frozenset(subresources.split(",")),
        post_only=subresources == "!",
        generation="g" in flags,
        categories=("all",) if "a" in flags else (),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        renames=EVENT_FIELDS if api_version == "events.k8s.io/v1" else {},
    )
