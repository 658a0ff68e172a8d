"""Explains pods of clusters that are given as lists of objects, and applies the changes that an explanation proposes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.sandbox.patches import strategic
from podwright.simulator.explain.deciders import Deciders
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import Change, Explanation
from podwright.simulator.world import World

LISTS = {
    "Node": "nodes",
    "Pod": "pods",
    "PersistentVolume": "persistentVolumes",
    "PersistentVolumeClaim": "persistentVolumeClaims",
}
NOW = 4e9


@dataclass(frozen=True)
class Cluster:
    """Objects by the names of their lists, the pods that wait, and policies."""

    objects: Mapping[str, Sequence[Mapping[str, Any]]]
    policies: Sequence[Mapping[str, Any]] = ()
    groups: Sequence[Mapping[str, Any]] = ()
    settings: PolicySettings = field(default=DEFAULT_SETTINGS)

    def deciders(self) -> Deciders:
        world = World(clock=lambda: NOW)
        for group in self.groups:
            world.cache.set_object("PodGroup", group)
        world.fill(self.objects)
        policies = PolicySet(
            PLUGINS,
            world.features,
            check=lambda policy: Framework(policy.profile, PLUGINS, handle=world),
            settings=self.settings,
        )
        for policy in self.policies:
            policies.apply(policy)
        for raw in self.objects.get("pods", ()):
            pod = parse_pod(raw, keep_raw=True)
            if not pod.node_name:
                world.cache.groups.add_waiting(pod)
        return Deciders(world, policies, PLUGINS)

    def explain(self, pod: Mapping[str, Any], *, changes: bool = True) -> Explanation:
        return explain_pod(self.deciders(), parse_pod(pod, keep_raw=True), changes=changes)


def apply(change: Change, cluster: Cluster, pod: dict[str, Any]) -> tuple[Cluster, dict[str, Any]]:
    """The cluster and the pod after the change."""
    objects = {name: [copy.deepcopy(each) for each in items] for name, items in cluster.objects.items()}
    pod = copy.deepcopy(pod)
    for edit in change.edits:
        own = edit.kind == "Pod" and edit.name == pod["metadata"]["name"]
        items = objects.setdefault(LISTS[edit.kind], [])
        index = next((i for i, each in enumerate(items) if _is(each, edit)), None)
        match edit.verb:
            case "patch" | "recreate" if own:
                pod = strategic(pod, edit.object, "Pod")
            case "patch":
                items[index] = strategic(items[index], edit.object, edit.kind)
            case "create":
                items.append(copy.deepcopy(edit.object))
            case "delete":
                del items[index]
            case "move":
                items[index]["spec"]["nodeName"] = edit.node
            case verb:
                raise AssertionError(verb)
    return Cluster(objects, cluster.policies, cluster.groups, cluster.settings), pod


def _is(raw: Mapping[str, Any], edit: Any) -> bool:
    metadata = raw["metadata"]
    return metadata["name"] == edit.name and (metadata.get("namespace") or "") == (
        edit.namespace or metadata.get("namespace") or ""
    )
