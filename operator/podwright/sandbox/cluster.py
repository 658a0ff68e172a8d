"""Cluster: what each verb does to an object: names, preconditions, subresources, generations, finalizers.

Invariants: all writes go through `SandboxCluster`, including those of the simulated kubelet. An update that changes
nothing creates no new revision. Read `store.py` next. `pods.py` and `schemas.py` hold the rules for single kinds.
"""

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.names import is_dns_subdomain
from podwright.sandbox import pods, schemas
from podwright.sandbox.errors import StatusError, bad_request, conflict, invalid, not_found
from podwright.sandbox.kinds import Kind, Kinds, Obj
from podwright.sandbox.selectors import ListSelection
from podwright.sandbox.store import Key, Revision, Store

PUT_CREATES = ("leases.coordination.k8s.io", "events")
STATUS_ON_CREATE = ("nodes", "persistentvolumes")
OWNERS = ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
DROPPED = ("managedFields", "selfLink")
STALE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options in the query string of a write."""

    dry_run: bool = False
    strict: bool = False  # reject unknown fields instead of dropping them


WRITE = WriteOptions()


class SandboxCluster:
    """The objects of one cluster. The store keeps the latest `history` changes of each kind."""

    def __init__(self, history: int = 10_000) -> None:
        self.kinds = Kinds()
        self.store = Store(history)
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(self.kinds.named("namespaces"), "", {"metadata": {"name": name}})
        for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
            priority_class = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}
            self.create(self.kinds.named("priorityclasses.scheduling.k8s.io"), "", priority_class)

    @staticmethod
    def now() -> str:
        """The wall time in RFC 3339, to the second."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def get(self, kind: Kind, namespace: str, name: str) -> Revision:
        """Raises ApiError 404."""
        entry = self.store[kind.stored].entries.get((namespace, name))
        if entry is None:
            raise not_found(kind, name)
        return entry

    def create(self, kind: Kind, namespace: str, obj: Obj, options: WriteOptions = WRITE) -> Revision:
        """Creates an object, which must be in stored form (`Kind.inward`). The store takes ownership of `obj`."""
        if kind.namespaced and ("", namespace) not in self.store["namespaces"].entries:
            raise not_found(self.kinds.named("namespaces"), namespace)
        obj = {**obj, "metadata": self._new_metadata(kind, namespace, obj)}
        name = obj["metadata"]["name"]
        if (namespace, name) in self.store[kind.stored].entries:
            raise StatusError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', **kind.details(name))
        if "status" in kind.subresources and kind.stored not in STATUS_ON_CREATE:
            obj.pop("status", None)
        if kind.schema:
            obj = self._through_schema(kind, obj, options)
        elif prepare := PREPARE.get(kind.stored):
            obj = prepare(self.store, kind, obj)
        return Revision(obj, self.store.rv) if options.dry_run else self._write(kind, obj)

    def _new_metadata(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        given = obj.get("metadata") or {}
        metadata = {key: value for key, value in given.items() if key not in FIXED + DROPPED}
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        while metadata.get("generateName") and not given.get("name"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
            if (namespace, metadata["name"]) not in self.store[kind.stored].entries:
                break
        name = metadata.get("name") or ""
        if not name:
            raise invalid(kind, "", ("metadata.name", "Required value: name or generateName is required"))
        if kind.group != "rbac.authorization.k8s.io" and not is_dns_subdomain(name):
            raise invalid(kind, name, ("metadata.name", f'Invalid value: "{name}": not a lowercase RFC 1123 subdomain'))
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        metadata |= {"generation": 1} if kind.generation else {}
        return metadata | ({"namespace": namespace} if kind.namespaced else {})

    @staticmethod
    def _through_schema(kind: Kind, obj: Obj, options: WriteOptions) -> Obj:
        dropped = kind.schema.prune(obj)
        if dropped and options.strict:
            raise bad_request("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in dropped))
        kind.schema.default(obj)
        if problems := kind.schema.problems(obj):
            raise invalid(kind, obj["metadata"]["name"], *problems)
        return obj

    def update(self, kind: Kind, key: Key, obj: Obj, sub: str = "", options: WriteOptions = WRITE) -> Revision:
        """Replaces an object, or only its status. Raises ApiError 409 if `obj` has another resourceVersion or uid."""
        namespace, name = key
        if kind.stored in PUT_CREATES and key not in self.store[kind.stored].entries:
            return self.create(kind, namespace, obj, options)
        entry = self.get(kind, namespace, name)
        metadata = obj.get("metadata") or {}
        if metadata.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if not metadata.get("resourceVersion") and kind.crd:
            problem = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, name, ("metadata.resourceVersion", problem))
        _check(kind, entry, {field: metadata[field] for field in ("uid", "resourceVersion") if metadata.get(field)})
        new = self._merged(kind, entry.obj, {**obj, "metadata": metadata}, sub)
        if kind.schema:
            new = self._through_schema(kind, new, options)
        elif kind.stored == "pods" and not sub:
            pods.check_update(kind, entry.obj, new)
        elif kind.stored == schemas.CRDS and not sub:
            new = schemas.accept(kind, new)
        return Revision(new, self.store.rv) if options.dry_run else self.replace(kind, entry, new)

    @staticmethod
    def _merged(kind: Kind, old: Obj, new: Obj, sub: str) -> Obj:
        """The new object, with the fields that this request may not change copied from the old one."""
        if sub == "status":
            kept = old["metadata"] if kind.crd else new["metadata"]
            new = old | {"metadata": kept} | ({"status": new["status"]} if "status" in new else {})
        elif "status" in kind.subresources:
            new = {key: value for key, value in new.items() if key != "status"}
            new |= {"status": old["status"]} if "status" in old else {}
        fixed = {key: old["metadata"][key] for key in (*FIXED, "name", "namespace") if key in old["metadata"]}
        metadata = {key: value for key, value in new["metadata"].items() if key not in FIXED + DROPPED}
        return new | {"metadata": metadata | fixed}

    def replace(self, kind: Kind, entry: Revision, new: Obj) -> Revision:
        """Writes a changed object without checks. Maintains the generation, honours finalizers, and ignores no-ops."""
        metadata = new["metadata"] | {"resourceVersion": str(entry.rv)}
        new = new | {"metadata": metadata}
        if kind.generation and _desired(kind, new) != _desired(kind, entry.obj):
            bound = kind.stored == "pods" and "nodeName" not in entry.obj["spec"] and "nodeName" in new["spec"]
            metadata["generation"] = entry.obj["metadata"].get("generation", 0) + (not bound)
        if new == entry.obj:
            return entry
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held:
            return self._remove(kind, entry)
        return self._write(kind, new)

    def delete(self, kind: Kind, namespace: str, name: str, body: Obj, options: WriteOptions = WRITE) -> Revision:
        """Deletes an object, or sets its deletionTimestamp if it has finalizers or a grace period. `body`:
        DeleteOptions.
        """
        entry = self.get(kind, namespace, name)
        metadata = entry.obj["metadata"]
        _check(kind, entry, body.get("preconditions") or {})
        grace = _grace(kind, entry.obj, body.get("gracePeriodSeconds"))
        if options.dry_run:
            return entry
        if not grace and not metadata.get("finalizers"):
            return self._remove(kind, entry)
        if "deletionTimestamp" in metadata and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return entry
        marks = {"deletionTimestamp": self.now(), "deletionGracePeriodSeconds": grace}
        return self.replace(kind, entry, entry.obj | {"metadata": metadata | marks})

    def _write(self, kind: Kind, obj: Obj) -> Revision:
        entry = self.store.write(kind.stored, obj)
        if kind.stored == schemas.CRDS:
            self.kinds.remove(obj["spec"]["group"], obj["spec"]["names"]["plural"])
            for custom in schemas.kinds_of(obj):
                self.kinds.add(custom)
        return entry

    def _remove(self, kind: Kind, entry: Revision) -> Revision:
        """Removes an object and its dependents: the objects in a namespace, of a CRD, or owned by a workload."""
        (namespace, name), uid = entry.key, entry.obj["metadata"]["uid"]
        if kind.stored == "namespaces":
            for inner in [inner for inner in self.kinds if inner.namespaced]:
                self._remove_all(inner.stored, ListSelection(name))
        removed = self.store.remove(kind.stored, entry)
        if kind.stored == schemas.CRDS:
            self._remove_all(name, ListSelection())
            self.kinds.remove(entry.obj["spec"]["group"], entry.obj["spec"]["names"]["plural"])
        for owned in map(self.kinds.named, ("replicasets.apps", "pods") if kind.stored in OWNERS else ()):
            for dependent in self.owned(owned, namespace, uid):
                self.delete(owned, *dependent.key, {})
        return removed

    def _remove_all(self, stored: str, selection: ListSelection) -> None:
        for entry in self.store[stored].select(selection):
            self.store.remove(stored, entry)

    def owned(self, kind: Kind, namespace: str, uid: str) -> list[Revision]:
        """The objects of a kind whose owner references contain `uid`."""

        def is_owned(obj: Obj) -> bool:
            return any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences") or ())

        return self.store[kind.stored].select(ListSelection(namespace, (is_owned,)))


def _check(kind: Kind, entry: Revision, wanted: Obj) -> None:
    """Raises ApiError 409 if `wanted` has a uid or resourceVersion that the object does not have."""
    name, uid = entry.key[1], entry.obj["metadata"]["uid"]
    if wanted.get("uid", uid) != uid:
        found = f"UID in precondition: {wanted['uid']}, UID in object meta: {uid}"
        raise conflict(kind, name, f"Precondition failed: {found}")
    if wanted.get("resourceVersion", str(entry.rv)) != str(entry.rv):
        raise conflict(kind, name, STALE)


def _grace(kind: Kind, obj: Obj, requested: int | None) -> int:
    if (
        kind.stored != "pods"
        or not obj["spec"].get("nodeName")
        or obj["status"].get("phase") in ("Succeeded", "Failed")
    ):
        return 0
    default: int = obj["spec"].get("terminationGracePeriodSeconds", 30)
    return default if requested is None else requested


def _desired(kind: Kind, obj: Obj) -> Any:
    """The fields whose change increments the generation: the spec, or all fields of a custom object but metadata and
    status.
    """
    if not kind.crd:
        return obj.get("spec")
    dropped = ("metadata", "status") if "status" in kind.subresources else ("metadata",)
    return {key: value for key, value in obj.items() if key not in dropped}


def _namespace(_: Store, __: Kind, obj: Obj) -> Obj:
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": obj["metadata"]["name"]}
    return obj | {"metadata": obj["metadata"] | {"labels": labels}, "status": {"phase": "Active"}}


def _workload(_: Store, __: Kind, obj: Obj) -> Obj:
    return obj | {"spec": {"replicas": 1} | (obj.get("spec") or {}), "status": {}}


PREPARE: dict[str, Callable[[Store, Kind, Obj], Obj]] = {
    "pods": pods.admit,
    "namespaces": _namespace,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    schemas.CRDS: lambda _, kind, obj: schemas.accept(kind, obj),
}
