"""A minimal controller for Deployments and ReplicaSets: it keeps the desired number of pods, and writes the status.

A changed template replaces all pods at once. There are no rolling updates and no revision history.
"""

import asyncio
import contextlib
import hashlib
from functools import partial

import orjson

from podwright.sandbox.cluster import SandboxCluster
from podwright.sandbox.errors import StatusError
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.store import Key, Revision, StoreChange

HASH = "pod-template-hash"


class Deployments:
    """Reconciles the Deployments and ReplicaSets affected by changes, once per iteration of the event loop."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self._cluster = cluster
        resources = ("deployments.apps", "replicasets.apps", "pods")
        self._deployments, self._sets, self._pods = map(cluster.kinds.named, resources)
        owners = {self._deployments: None, self._sets: self._deployments, self._pods: self._sets}
        self.watchers = {kind.stored: partial(self._changed, kind, owner) for kind, owner in owners.items()}
        self._dirty: dict[tuple[str, Key], None] = {}

    def _changed(self, kind: Kind, owner: Kind | None, change: StoreChange) -> None:
        entry = change.latest
        if kind is not self._pods:
            self._enqueue(kind, entry.key)
        for reference in entry.obj["metadata"].get("ownerReferences") or ():
            if owner and reference["kind"] == owner.kind:
                self._enqueue(owner, (entry.key[0], reference["name"]))

    def _enqueue(self, kind: Kind, key: Key) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._reconcile)
        self._dirty[kind.stored, key] = None

    def _reconcile(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for stored, key in dirty:
            entry = self._cluster.store[stored].entries.get(key)
            if entry is not None and "deletionTimestamp" not in entry.obj["metadata"]:
                with contextlib.suppress(StatusError):  # the template is not a valid pod
                    (self._replica_set if stored == self._sets.stored else self._deployment)(entry)

    def _deployment(self, entry: Revision) -> None:
        namespace, spec = entry.key[0], entry.obj["spec"]
        template = orjson.dumps(spec["template"], option=orjson.OPT_SORT_KEYS)
        name = hashlib.sha256(template).hexdigest()[:10]
        sets = self._cluster.owned(self._sets, namespace, entry.obj["metadata"]["uid"])
        current = [old for old in sets if old.obj["metadata"]["labels"][HASH] == name]
        for old in sets:
            scaled = old.obj["spec"] | {"replicas": spec["replicas"] if old in current else 0}
            self._cluster.replace(self._sets, old, old.obj | {"spec": scaled})
        if not current:
            self._cluster.create(self._sets, namespace, _set_of(entry.obj, name))
        counts = [old.obj["status"] for old in sets]
        totals = {key: sum(count.get(key, 0) for count in counts) for key in ("replicas", "readyReplicas")}
        updated = {"updatedReplicas": sum(old.obj["status"].get("replicas", 0) for old in current)}
        self._status(self._deployments, entry.key, totals | updated)

    def _replica_set(self, entry: Revision) -> None:
        (namespace, name), spec = entry.key, entry.obj["spec"]
        owned = self._cluster.owned(self._pods, namespace, entry.obj["metadata"]["uid"])
        pods = [pod for pod in owned if "deletionTimestamp" not in pod.obj["metadata"]]
        for _ in range(spec["replicas"] - len(pods)):
            pod = orjson.loads(orjson.dumps(spec["template"]))
            pod["metadata"] |= {"generateName": f"{name}-", "ownerReferences": [_owner("ReplicaSet", entry.obj)]}
            self._cluster.create(self._pods, namespace, pod)
        pods.sort(key=lambda pod: "nodeName" in pod.obj["spec"])
        for unwanted in pods[: max(0, len(pods) - spec["replicas"])]:
            self._cluster.delete(self._pods, *unwanted.key, {})
        ready = sum(pod.obj["status"].get("phase") == "Running" for pod in pods)
        self._status(self._sets, entry.key, {"replicas": spec["replicas"], "readyReplicas": ready})

    def _status(self, kind: Kind, key: Key, counts: dict[str, int]) -> None:
        current = self._cluster.store[kind.stored].entries[key]
        generation = current.obj["metadata"]["generation"]
        counts |= {"availableReplicas": counts["readyReplicas"], "observedGeneration": generation}
        self._cluster.replace(kind, current, current.obj | {"status": current.obj["status"] | counts})


def _owner(kind: str, obj: Obj) -> Obj:
    reference = {"apiVersion": "apps/v1", "kind": kind, "controller": True, "blockOwnerDeletion": True}
    return reference | {key: obj["metadata"][key] for key in ("name", "uid")}


def _set_of(deployment: Obj, name: str) -> Obj:
    spec, label = deployment["spec"], {HASH: name}
    inner = spec["template"].get("metadata") or {}
    labels = (inner.get("labels") or {}) | label
    selector = spec["selector"] | {"matchLabels": (spec["selector"].get("matchLabels") or {}) | label}
    metadata = {"name": f"{deployment['metadata']['name']}-{name}", "labels": labels}
    metadata |= {"ownerReferences": [_owner("Deployment", deployment)]}
    template = spec["template"] | {"metadata": inner | {"labels": labels}}
    return {"metadata": metadata, "spec": {"replicas": spec["replicas"], "selector": selector, "template": template}}
