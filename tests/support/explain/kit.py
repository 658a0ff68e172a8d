"""Explains pods of clusters that are given as lists of objects, and applies the changes that an explanation
proposes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.sandbox.patches import strategic
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import Change, Explanation
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.snapshot import Snapshot

LISTS = {watched.kind: watched.plural_field for watched in WATCHED_KINDS}
KINDS = {watched.plural_field: watched.kind for watched in WATCHED_KINDS}
GATES = Features({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
NOW = 4e9
QUEUE_WORDS = ("SchedulingQueue", "Queue.scheduling.run.ai", "Queue.scheduling.volcano.sh")


@dataclass(frozen=True)
class Cluster:
    """Objects by the names of their lists, the pods that wait, and policies and queues."""

    objects: Mapping[str, Sequence[Mapping[str, Any]]]
    policies: Sequence[Mapping[str, Any]] = ()
    groups: Sequence[Mapping[str, Any]] = ()
    settings: PolicySettings = field(default=DEFAULT_SETTINGS)

    def items(self, *others: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """All objects, with further pods."""
        lists = {**self.objects, "pods": [*self.objects.get("pods", ()), *others]}
        objects = [{"apiVersion": "v1", **raw, "kind": KINDS[name]} for name, items in lists.items() for raw in items]
        return [*objects, *self.groups, *self.policies]

    def load(self) -> LoadedCluster:
        snapshot = Snapshot(objects=self.items(), taken_at=NOW)
        return load(snapshot, LoadOptions(features=GATES, settings=self.settings))

    def explain(self, pod: Mapping[str, Any], *, changes: bool = True) -> Explanation:
        """Explains a pod that need not be in the cluster."""
        return explain_pod(self.load(), parse_pod(pod, keep_raw=True), changes=changes, raw=pod)


def apply(change: Change, cluster: Cluster, pod: dict[str, Any]) -> tuple[Cluster, dict[str, Any]]:
    """The cluster and the pod after the change."""
    objects = {name: [copy.deepcopy(each) for each in items] for name, items in cluster.objects.items()}
    pod, groups = copy.deepcopy(pod), [copy.deepcopy(each) for each in cluster.groups]
    policies = [copy.deepcopy(each) for each in cluster.policies]
    for edit in change.edits:
        own = edit.kind == "Pod" and edit.name == pod["metadata"]["name"]
        others = {"PodGroup": groups, "SchedulerPolicy": policies, **dict.fromkeys(QUEUE_WORDS, policies)}
        items = others[edit.kind] if edit.kind in others else objects.setdefault(LISTS[edit.kind], [])
        index = next((i for i, each in enumerate(items) if _is(each, edit)), None)
        match edit.verb:
            case "patch" | "recreate" if own:
                pod = strategic(pod, edit.object, "Pod")
                if index is not None:
                    items[index] = pod
            case "patch" | "recreate":
                items[index] = strategic(items[index], edit.object, edit.kind)
            case "create":
                items.append(copy.deepcopy(edit.object))
            case "delete":
                gone = items.pop(index)
                if edit.kind == "Pod":
                    objects["resourceClaims"] = [*_without(gone, objects.get("resourceClaims", ()))]
            case "move":
                items[index]["spec"]["nodeName"] = edit.node
            case verb:
                raise AssertionError(verb)
    return Cluster(objects, policies, groups, cluster.settings), pod


def _without(pod: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The ResourceClaims that are left by their controller when the pod is gone."""
    uid = pod["metadata"].get("uid") or f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']}"
    for claim in claims:
        status = dict(claim.get("status") or {})
        users = [each for each in status.get("reservedFor") or () if each.get("uid") != uid]
        if any(each.get("uid") == uid for each in claim["metadata"].get("ownerReferences") or ()):
            continue
        if len(users) < len(status.get("reservedFor") or ()):
            status["reservedFor"] = users
            if not users:
                status.pop("allocation", None)
        yield {**claim, "status": status}


def _is(raw: Mapping[str, Any], edit: Any) -> bool:
    metadata = raw["metadata"]
    return metadata["name"] == edit.name and (metadata.get("namespace") or "") == (
        edit.namespace or metadata.get("namespace") or ""
    )
