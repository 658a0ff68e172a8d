"""What each verb does to an object: names, preconditions, subresources, generations, finalizers.

Invariant: all writes of the sandbox, the simulated kubelet's included, go through `Cluster`; an update that changes
nothing makes no new revision. Read `store.py` next; `pods.py` and `schemas.py` hold the rules of single kinds.
"""

import random
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from podwright.sandbox import pods, schemas
from podwright.sandbox.errors import already_exists, bad_request, conflict, invalid, not_found, stale
from podwright.sandbox.kinds import Kind, Kinds, Obj
from podwright.sandbox.selectors import Selection
from podwright.sandbox.store import Entry, Store

PUT_CREATES = ("leases.coordination.k8s.io", "events")
STATUS_ON_CREATE = ("nodes", "persistentvolumes")
WORKLOADS = ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
FIXED_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
NAMES = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


class Cluster:
    """The objects of one cluster and the rules by which they change."""

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
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def get(self, kind: Kind, namespace: str, name: str) -> Entry:
        """Raises ApiError 404."""
        entry = self.store[kind.stored].entries.get((namespace, name))
        if entry is None:
            raise not_found(kind, name)
        return entry

    def create(self, kind: Kind, namespace: str, obj: Obj, *, dry_run: bool = False, strict: bool = False) -> Entry:
        """`obj` is stored form (`Kind.inward`) and becomes the store's."""
        entries = self.store[kind.stored].entries
        if kind.namespaced and ("", namespace) not in self.store["namespaces"].entries:
            raise not_found(self.kinds.named("namespaces"), namespace)
        metadata = self._new_metadata(kind, namespace, obj)
        while (namespace, metadata["name"]) in entries:
            if not metadata.get("generateName"):
                raise already_exists(kind, metadata["name"])
            metadata["name"] = metadata["generateName"] + _suffix()
        obj = {**obj, "metadata": metadata}
        if "status" in kind.subresources and kind.stored not in STATUS_ON_CREATE:
            obj.pop("status", None)
        obj = self._admit(kind, obj, strict=strict)
        if dry_run:
            return Entry(obj, self.store.rv)
        entry = self.store.write(kind.stored, obj)
        self._written(kind, entry)
        return entry

    def _new_metadata(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        metadata = _clean(obj.get("metadata") or {})
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the request"
                f" ({metadata['namespace']} instead of {namespace or 'none'})"
            )
        if metadata.get("name"):
            metadata.pop("generateName", None)
        elif metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + _suffix()
        else:
            raise invalid(kind, "", ("metadata.name", "Required value: name or generateName is required"))
        name = metadata["name"]
        if kind.group != "rbac.authorization.k8s.io" and (len(name) > 253 or not NAMES.fullmatch(name)):
            problem = f'Invalid value: "{name}": not a lowercase RFC 1123 subdomain'
            raise invalid(kind, name, ("metadata.name", problem))
        fixed: Obj = {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        if kind.namespaced:
            fixed["namespace"] = namespace
        if kind.generation:
            fixed["generation"] = 1
        return {key: value for key, value in metadata.items() if key not in FIXED_METADATA} | fixed

    def _admit(self, kind: Kind, obj: Obj, *, strict: bool) -> Obj:
        if kind.schema:
            return self._through_schema(kind, obj, strict=strict)
        prepare = ADMISSION.get(kind.stored)
        return prepare(self, kind, obj) if prepare else obj

    @staticmethod
    def _through_schema(kind: Kind, obj: Obj, *, strict: bool) -> Obj:
        dropped = kind.schema.prune(obj)
        if dropped and strict:
            raise bad_request("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in dropped))
        kind.schema.default(obj)
        if problems := kind.schema.problems(obj):
            raise invalid(kind, obj["metadata"]["name"], *problems)
        return obj

    def update(
        self, kind: Kind, key: tuple[str, str], obj: Obj, *, sub: str = "", dry_run: bool = False, strict: bool = False
    ) -> Entry:
        """Replace an object, or its status only; 409 if `obj` names another revision or uid."""
        namespace, name = key
        if kind.stored in PUT_CREATES and key not in self.store[kind.stored].entries:
            return self.create(kind, namespace, obj, dry_run=dry_run)
        entry = self.get(kind, namespace, name)
        metadata = _clean(obj.get("metadata") or {})
        if metadata.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        rv = metadata.get("resourceVersion")
        if rv and rv != str(entry.rv):
            raise stale(kind, name)
        if not rv and kind.crd:
            problem = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, name, ("metadata.resourceVersion", problem))
        if metadata.get("uid", entry.obj["metadata"]["uid"]) != entry.obj["metadata"]["uid"]:
            found = f"UID in precondition: {metadata['uid']}, UID in object meta: {entry.obj['metadata']['uid']}"
            raise conflict(kind, name, f"Precondition failed: {found}")
        new = self._merged(kind, entry.obj, {**obj, "metadata": metadata}, sub)
        if kind.schema:
            new = self._through_schema(kind, new, strict=strict)
        elif kind.stored == "pods" and not sub:
            pods.check_update(kind, entry.obj, new)
        elif kind.stored == schemas.CRDS and not sub:
            new = schemas.accept(kind, new)
        return Entry(new, self.store.rv) if dry_run else self.replace(kind, entry, new)

    @staticmethod
    def _merged(kind: Kind, old: Obj, new: Obj, sub: str) -> Obj:
        """The new object with what this request may not change taken from the old one."""
        if sub == "status":
            kept = old["metadata"] if kind.crd else new["metadata"]
            new = old | {"metadata": kept} | ({"status": new["status"]} if "status" in new else {})
        elif "status" in kind.subresources:
            new = {key: value for key, value in new.items() if key != "status"}
            new |= {"status": old["status"]} if "status" in old else {}
        metadata = {key: value for key, value in new["metadata"].items() if key not in FIXED_METADATA}
        metadata |= {key: old["metadata"][key] for key in FIXED_METADATA if key in old["metadata"]}
        metadata["name"] = old["metadata"]["name"]
        if kind.namespaced:
            metadata["namespace"] = old["metadata"]["namespace"]
        return new | {"metadata": metadata}

    def replace(self, kind: Kind, entry: Entry, new: Obj) -> Entry:
        """Write a changed object as it is, past all checks: generation, finalizers and no-ops are seen to."""
        metadata = new["metadata"] | {"resourceVersion": str(entry.rv)}
        new = new | {"metadata": metadata}
        if kind.generation and _desired(kind, new) != _desired(kind, entry.obj):
            metadata["generation"] = entry.obj["metadata"].get("generation", 0) + 1
        if new == entry.obj:
            return entry
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held:
            return self._remove(kind, entry)
        written = self.store.write(kind.stored, new)
        self._written(kind, written)
        return written

    def delete(self, kind: Kind, namespace: str, name: str, options: Obj, *, dry_run: bool = False) -> Entry:
        """Delete, or mark as being deleted where finalizers or a pod's grace period ask for it."""
        entry = self.get(kind, namespace, name)
        metadata = entry.obj["metadata"]
        wanted = options.get("preconditions") or {}
        for field, value in (("uid", metadata["uid"]), ("resourceVersion", metadata["resourceVersion"])):
            if wanted.get(field, value) != value:
                found = f"{field} in precondition: {wanted[field]}, {field} in object meta: {value}"
                raise conflict(kind, name, f"Precondition failed: {found}")
        grace = self._grace(kind, entry.obj, options.get("gracePeriodSeconds"))
        if dry_run:
            return entry
        if not grace and not metadata.get("finalizers"):
            return self._remove(kind, entry)
        if "deletionTimestamp" in metadata and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return entry
        marks = {"deletionTimestamp": self.now(), "deletionGracePeriodSeconds": grace}
        return self.replace(kind, entry, entry.obj | {"metadata": metadata | marks})

    @staticmethod
    def _grace(kind: Kind, obj: Obj, asked: int | None) -> int:
        if kind.stored != "pods" or not obj["spec"].get("nodeName"):
            return 0
        if obj["status"].get("phase") in ("Succeeded", "Failed"):
            return 0
        default: int = obj["spec"].get("terminationGracePeriodSeconds", 30)
        return default if asked is None else asked

    def _remove(self, kind: Kind, entry: Entry) -> Entry:
        metadata = entry.obj["metadata"]
        if kind.stored == "namespaces":
            self._empty(Selection(metadata["name"]))
        gone = self.store.remove(kind.stored, entry)
        if kind.stored == schemas.CRDS:
            spec = entry.obj["spec"]
            for custom in self.store[metadata["name"]].select(Selection("")):
                self.store.remove(metadata["name"], custom)
            self.kinds.remove(spec["group"], spec["names"]["plural"])
        if kind.stored in WORKLOADS:
            self._collect(metadata["uid"], metadata["namespace"])
        return gone

    def _empty(self, selection: Selection) -> None:
        for kind in [kind for kind in self.kinds if kind.namespaced]:
            for entry in self.store[kind.stored].select(selection):
                self.store.remove(kind.stored, entry)

    def _collect(self, owner: str, namespace: str) -> None:
        """Delete what a deleted workload owns."""
        for resource in ("replicasets.apps", "pods"):
            kind = self.kinds.named(resource)
            for entry in self.store[resource].select(Selection(namespace)):
                metadata = entry.obj["metadata"]
                if any(reference["uid"] == owner for reference in metadata.get("ownerReferences") or ()):
                    self.delete(kind, namespace, metadata["name"], {})

    def _written(self, kind: Kind, entry: Entry) -> None:
        if kind.stored == schemas.CRDS:
            spec = entry.obj["spec"]
            self.kinds.remove(spec["group"], spec["names"]["plural"])
            for custom in schemas.kinds_of(entry.obj):
                self.kinds.add(custom)


def _clean(metadata: Obj) -> Obj:
    return {key: value for key, value in metadata.items() if key not in ("managedFields", "selfLink")}


def _desired(kind: Kind, obj: Obj) -> Any:
    """What bumps the generation: the spec, or all but metadata (and a served status) of a custom object."""
    if not kind.crd:
        return obj.get("spec")
    dropped = ("metadata", "status") if "status" in kind.subresources else ("metadata",)
    return {key: value for key, value in obj.items() if key not in dropped}


def _suffix() -> str:
    return "".join(random.choices(SUFFIX, k=5))


def _namespace(_: Cluster, __: Kind, obj: Obj) -> Obj:
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": obj["metadata"]["name"]}
    return obj | {"metadata": obj["metadata"] | {"labels": labels}, "status": {"phase": "Active"}}


def _workload(_: Cluster, __: Kind, obj: Obj) -> Obj:
    return obj | {"spec": {"replicas": 1} | (obj.get("spec") or {}), "status": {}}


ADMISSION: dict[str, Callable[[Cluster, Kind, Obj], Obj]] = {
    "pods": pods.admit,
    "namespaces": _namespace,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    schemas.CRDS: lambda _, kind, obj: schemas.accept(kind, obj),
}
