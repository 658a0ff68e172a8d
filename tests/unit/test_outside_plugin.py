"""A plugin outside the tree says everything about itself that Podwright's own plugins say: what it costs, why it
rejects a pod, what would help, and what policies may set of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.cost import Cost
from podwright.core.framework.explaining import NodeChange, PodChange, Why, editable
from podwright.core.framework.features import Features
from podwright.core.framework.interface import FilterPlugin, Plugin, PreFilterPlugin, Scope, ScorePlugin
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.engine.intake.pending_pods import COSTLY
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import PodState
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.snapshot import Snapshot
from support.engine.kit import Rig
from support.explain.kit import GATES, NOW, apply
from support.explain.objects import cluster, node, waiting
from support.objects.builders import make_policy
from support.policies.local import delegating, local_policy

RACK = "example.com/rack"


@dataclass(frozen=True)
class RackArgs:
    ignored: tuple[str, ...] = ()
    curve: str = "flat"


class Racks(Plugin, PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Keeps pods off the nodes of other racks, and those for the rack `moon` off all nodes."""

    name = "Racks"
    scope = Scope.NODE
    args_type = RackArgs
    reason = "OtherRack"
    remoteness = 1.1
    unsafe_args: ClassVar = {"ignored": "pods could be bound to racks that burn"}
    scoring_args = ("curve",)

    def costs(self, pod):
        return [Cost(len(pod.labels), "labels", 100e-6)]

    def pre_filter(self, _state, pod):
        return unresolvable("no such rack") if pod.labels.get(RACK) == "moon" else None

    def filter(self, _state, pod, node):
        rack = node.present.labels.get(RACK)
        return None if rack == pod.labels.get(RACK) else unresolvable("node(s) were in another rack")

    def score(self, _state, _pod, _node):
        return 0

    def why_not_here(self, pod, node, _message):
        wanted, rack = pod.labels.get(RACK), node.present.labels.get(RACK)
        return Why(text="the pod belongs to another rack", detail=f"rack {rack}, the pod is of {wanted}")

    def why_nowhere(self, pod, _message):
        return Why("RackMissing", f"rack {pod.labels[RACK]} does not exist")

    def changes_of_pod(self, pod, node):
        made, rack = editable(pod), node.present.labels[RACK]
        made["metadata"]["labels"][RACK] = rack
        yield PodChange(f"belong to rack {rack}", made)

    def change_of_node(self, pod, node):
        rack = pod.labels[RACK]
        return NodeChange(f"move node {node.name} to rack {rack}", replace(node, labels={**node.labels, RACK: rack}))


class Silent(Racks):
    """Each of its statements about itself raises."""

    costs = why_not_here = why_nowhere = remoteness_of = changes_of_pod = change_of_node = None


ENABLED = {"strategy": {"type": "Custom"}, "plugins": {"multiPoint": {"enabled": [{"name": "Racks"}]}}}
NODES = (node("one", labels={RACK: "b"}), node("two", labels={RACK: "b"}, allocatable={"cpu": "1"}))
CLUSTER = cluster(NODES, policies=[make_policy("racks", **ENABLED)])


def explained(rack, within=CLUSTER, plugin=Racks, *, pod=None, changes=True):
    pod = pod or waiting(labels={RACK: rack}, requests={"cpu": "2"})
    snapshot = Snapshot(objects=within.items(), taken_at=NOW)
    loaded = load(snapshot, LoadOptions(features=GATES, classes={**PLUGINS, "Racks": plugin}))
    return explain_pod(loaded, parse_pod(pod, keep_raw=True), changes=changes)


def test_explain_gives_its_causes_and_what_rejects_the_nearest_node():
    found = explained("a")
    assert (found.cause.reason, found.cause.plugin) == ("OtherRack", "Racks")
    assert "the pod belongs to another rack; there is one: rack b, the pod is of a" in found.cause.text
    assert found.nearest[0].problems[0].detail == "rack b, the pod is of a"
    found = explained("moon")
    assert (found.cause.reason, found.cause.text) == ("RackMissing", "rack moon does not exist")


def test_explain_proves_its_changes():
    pod = waiting(labels={RACK: "a"}, requests={"cpu": "2"})
    found = explained("a", pod=pod)
    assert {"belong to rack b", "move node one to rack a"} <= {change.text for change in found.changes}
    for change in found.changes:
        changed, changed_pod = apply(change, CLUSTER, pod)
        assert explained("", changed, pod=changed_pod, changes=False).state is PodState.FITS


@pytest.mark.parametrize("rack", ["a", "moon"])
def test_explain_does_without_the_statements_of_a_plugin_that_fails_to_make_them(rack):
    found = explained(rack, plugin=Silent)
    assert (found.state, found.cause.reason, found.cause.plugin) == (PodState.PENDING, "OtherRack", "Racks")


def test_its_costs_make_a_pod_costly():
    rig = Rig({"Racks": Racks})
    rig.engine.policies.apply(make_policy("racks", 1, "u", **ENABLED))
    rig.pod("a", labels={f"key-{i}": "" for i in range(1_000)})
    assert rig.engine.queue.costly == 1
    assert "plugin Racks checks 1,000 labels" in rig.recorder.notes(COSTLY)[0]


def test_policies_may_set_of_it_what_it_says():
    policies = PolicySet({**PLUGINS, "Racks": Racks}, Features(), settings=PolicySettings())
    config = [{"name": "Racks", "args": {"ignored": ["a"], "curve": "steep"}}]
    assert "racks that burn" in policies.apply(make_policy("racks", 1, "u", **ENABLED, pluginConfig=config)).message
    config[0]["args"].pop("ignored")
    policies.apply(delegating(delegation={"strategies": ["MostAllocated"]}, pluginConfig=config, **ENABLED))
    ours = local_policy(strategy={"type": "MostAllocated"})
    assert policies.local.apply(ours).accepted
    pod = parse_pod(waiting(namespace="team-a"))
    assert policies.select(pod, {}).profile.args.get("Racks", RackArgs()) == RackArgs()
