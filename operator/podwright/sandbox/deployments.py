"""Deployments and ReplicaSets as far as examples need them: the wanted number of pods, and their status.

A changed template replaces all pods at once: there is no rolling update and no history.
"""

import asyncio
import hashlib
from functools import partial

import orjson

from podwright.sandbox.cluster import Cluster
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.selectors import Selection
from podwright.sandbox.store import Change, Entry

HASH = "pod-template-hash"
Key = tuple[str, str]


class Deployments:
    """Reconciles every Deployment and ReplicaSet that a change touched, once per turn of the event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._deployments = cluster.kinds.named("deployments.apps")
        self._sets = cluster.kinds.named("replicasets.apps")
        self._pods = cluster.kinds.named("pods")
        owners = {self._deployments: None, self._sets: self._deployments, self._pods: self._sets}
        self._watchers = {kind: partial(self._changed, kind, owner) for kind, owner in owners.items()}
        self._dirty: dict[tuple[str, Key], None] = {}

    def start(self) -> None:
        for kind, watcher in self._watchers.items():
            self._cluster.store[kind.stored].watchers.add(watcher)

    def stop(self) -> None:
        for kind, watcher in self._watchers.items():
            self._cluster.store[kind.stored].watchers.discard(watcher)

    def _changed(self, kind: Kind, owner_kind: Kind | None, change: Change) -> None:
        entry = change.new or change.old
        assert entry is not None
        metadata = entry.obj["metadata"]
        if kind is not self._pods:
            self._touch(kind, metadata["namespace"], metadata["name"])
        for owner in metadata.get("ownerReferences") or ():
            if owner_kind and owner["kind"] == owner_kind.kind:
                self._touch(owner_kind, metadata["namespace"], owner["name"])

    def _touch(self, kind: Kind, namespace: str, name: str) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._reconcile)
        self._dirty[kind.stored, (namespace, name)] = None

    def _reconcile(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for stored, key in dirty:
            entry = self._cluster.store[stored].entries.get(key)
            if entry is None or "deletionTimestamp" in entry.obj["metadata"]:
                continue
            if stored == self._sets.stored:
                self._replica_set(entry)
            else:
                self._deployment(entry)

    def _owned(self, kind: Kind, owner: Obj) -> list[Entry]:
        metadata = owner["metadata"]
        return [
            entry
            for entry in self._cluster.store[kind.stored].select(Selection(metadata["namespace"]))
            if any(
                reference["uid"] == metadata["uid"] for reference in entry.obj["metadata"].get("ownerReferences") or ()
            )
        ]

    def _deployment(self, entry: Entry) -> None:
        deployment, spec = entry.obj, entry.obj["spec"]
        template = orjson.dumps(spec["template"], option=orjson.OPT_SORT_KEYS)
        name = hashlib.sha256(template).hexdigest()[:10]
        sets = self._owned(self._sets, deployment)
        for old in sets:
            wanted = spec["replicas"] if old.obj["metadata"]["labels"][HASH] == name else 0
            scaled = old.obj | {"spec": old.obj["spec"] | {"replicas": wanted}}
            self._cluster.replace(self._sets, old, scaled)
        if not any(old.obj["metadata"]["labels"][HASH] == name for old in sets):
            self._cluster.create(self._sets, deployment["metadata"]["namespace"], _set_of(deployment, name))
        counts = [old.obj["status"] for old in sets]
        totals = {key: sum(count.get(key, 0) for count in counts) for key in ("replicas", "readyReplicas")}
        self._status(self._deployments, entry, totals | {"updatedReplicas": totals["replicas"]})

    def _replica_set(self, entry: Entry) -> None:
        found, spec = entry.obj, entry.obj["spec"]
        namespace = found["metadata"]["namespace"]
        pods = [pod for pod in self._owned(self._pods, found) if "deletionTimestamp" not in pod.obj["metadata"]]
        for _ in range(spec["replicas"] - len(pods)):
            pod = orjson.loads(orjson.dumps(spec["template"]))
            pod["metadata"] = {**(pod.get("metadata") or {}), "generateName": f"{found['metadata']['name']}-"}
            pod["metadata"]["ownerReferences"] = [_owner("ReplicaSet", found)]
            self._cluster.create(self._pods, namespace, pod)
        pods.sort(key=lambda pod: bool(pod.obj["spec"].get("nodeName")))
        for pod in pods[: max(0, len(pods) - spec["replicas"])]:
            self._cluster.delete(self._pods, namespace, pod.obj["metadata"]["name"], {})
        ready = sum(pod.obj["status"].get("phase") == "Running" for pod in pods)
        self._status(self._sets, entry, {"replicas": spec["replicas"], "readyReplicas": ready})

    def _status(self, kind: Kind, entry: Entry, counts: dict[str, int]) -> None:
        current = self._cluster.store[kind.stored].entries[
            entry.obj["metadata"]["namespace"], entry.obj["metadata"]["name"]
        ]
        seen = current.obj["metadata"]["generation"]
        available = {"availableReplicas": counts["readyReplicas"], "observedGeneration": seen}
        self._cluster.replace(kind, current, current.obj | {"status": {**current.obj["status"], **counts, **available}})


def _owner(kind: str, obj: Obj) -> Obj:
    metadata = obj["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return reference | {"controller": True, "blockOwnerDeletion": True}


def _set_of(deployment: Obj, name: str) -> Obj:
    spec = deployment["spec"]
    template = orjson.loads(orjson.dumps(spec["template"]))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: name}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: name}}
    metadata = {"name": f"{deployment['metadata']['name']}-{name}", "labels": labels}
    metadata["ownerReferences"] = [_owner("Deployment", deployment)]
    return {"metadata": metadata, "spec": {"replicas": spec["replicas"], "selector": selector, "template": template}}
