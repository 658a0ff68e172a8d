"""Policies in shadow mode: what they would have decided, beside another scheduler. Nothing is written, and nothing is
bound.
"""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_KIND
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.engine.shadow.tally import REMEMBERED, Skip
from support.engine.kit import deciding, ours, settle, values
from support.engine.shadows import ShadowRig, shadow_policy, theirs

PACK = {"strategy": {"type": "MostAllocated"}}


@pytest.fixture
async def rig():
    found = ShadowRig()
    found.node("a", allocatable={"cpu": "4"})
    found.node("b", allocatable={"cpu": "8"})
    async with deciding(found):
        yield found


def nothing_was_written(rig):
    return not (
        rig.cluster.bound or rig.recorder.events or rig.status.written or rig.evictor.evicted or rig.groups.written
    )


class TestPodsThatGetNodes:
    async def test_the_same_node_agrees(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), "b")
        assert rig.outcomes() == {ComparisonOutcome.AGREED: 1}
        assert rig.tally().agreement == 1.0
        assert nothing_was_written(rig)

    async def test_another_node_is_a_disagreement_with_both_reasons(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), "a")
        assert rig.outcomes() == {ComparisonOutcome.LOWER: 1}
        (found,) = rig.report()["policies"][0]["disagreements"]
        assert (found["pod"], found["scheduler"], found["changes"]) == ("default/web", "default-scheduler", 0)
        assert (found["ours"]["node"], found["theirs"]["node"]) == ("b", "a")
        assert found["ours"]["score"] > found["theirs"]["score"]
        difference = sum(each["weight"] * (each["ours"] - each["theirs"]) for each in found["plugins"])
        assert difference == found["ours"]["score"] - found["theirs"]["score"]
        assert found["plugins"][0]["plugin"] == "NodeResourcesFit"

    async def test_a_node_that_the_policy_rejects_is_named_with_the_reason(self, rig):
        rig.node("c", allocatable={"cpu": "100"}, taints=[{"key": "spot", "effect": "NoSchedule"}])
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), "c")
        assert rig.outcomes() == {ComparisonOutcome.REJECTED: 1}
        (found,) = rig.report()["policies"][0]["disagreements"]
        assert found["theirs"] == {
            "node": "c",
            "why": "TaintToleration: node(s) had untolerated taint(s)",
        }

    async def test_a_pod_that_the_policy_would_not_place_says_why(self, rig):
        rule = {"name": "none", "expression": "false", "message": "node(s) are not for this"}
        await rig.apply(shadow_policy(rules={"filters": [rule]}))
        await rig.placed(theirs("web", requests={"cpu": "1"}), "a")
        assert rig.outcomes() == {ComparisonOutcome.UNPLACED: 1}
        (found,) = rig.report()["policies"][0]["disagreements"]
        assert found["ours"]["why"] == "0/2 nodes are available: 2 node(s) are not for this."

    @pytest.mark.parametrize("node", ["a", "c"])
    async def test_one_of_several_best_nodes_is_a_tie_whichever_it_is(self, rig, node):
        rig.engine.nodes.drop("b", None)
        rig.node("c", allocatable={"cpu": "4"})
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), node)
        assert rig.outcomes() == {ComparisonOutcome.TIED: 1}
        assert rig.tally().agreement is None

    async def test_the_decision_is_made_on_the_state_before_the_pod_and_later_ones_had_nodes(self, rig):
        """With 2 of 5 CPUs taken by the pod itself, or by the next one, the other node would be better."""
        rig.node("b", allocatable={"cpu": "5"})
        await rig.apply(shadow_policy())
        for name in ("first", "second"):
            raw = theirs(name, requests={"cpu": "2"})
            rig.engine.shadow.pods.put(raw)
            rig.engine.assigned.put({**raw, "spec": {**raw["spec"], "nodeName": "b"}})
        await settle()
        assert rig.outcomes() == {ComparisonOutcome.AGREED: 1, ComparisonOutcome.LOWER: 1}
        (found,) = rig.tally().disagreements
        assert found.pod == "default/second"
        assert rig.tally().changed == 0

    async def test_other_changes_meanwhile_are_counted(self, rig):
        await rig.apply(shadow_policy())
        raw = theirs("web", requests={"cpu": "1"})
        rig.engine.shadow.pods.put(raw)
        rig.engine.assigned.put({**raw, "spec": {**raw["spec"], "nodeName": "a"}})
        rig.node("a", allocatable={"cpu": "5"})
        await settle()
        (found,) = rig.tally().disagreements
        assert (found.changes, rig.tally().changed) == (1, 1)

    async def test_a_pod_that_was_created_with_a_node_is_not_compared(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("static", requests={"cpu": "1"}), "a", seen=False)
        assert rig.outcomes() == {}

    async def test_pods_of_other_names_and_labels_are_not_compared(self, rig):
        await rig.apply(shadow_policy(match={"podSelector": {"matchLabels": {"app": "web"}}}))
        await rig.placed(theirs("web", labels={"app": "web"}), "a")
        await rig.placed(theirs("db", labels={"app": "db"}), "a")
        await rig.placed(theirs("other", spec={"schedulerName": "else"}), "a")
        assert sum(rig.outcomes().values()) == 1

    async def test_pods_that_were_there_before_are_not_compared(self, rig):
        await rig.placed(theirs("old", requests={"cpu": "1"}), "a")
        await rig.apply(shadow_policy())
        assert rig.outcomes() == {}

    async def test_a_pod_for_which_the_other_made_room_is_not_compared(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}, unschedulable="0/2 nodes", nominated="a"), "a")
        assert rig.tally().skipped == {Skip.PREEMPTION: 1}

    async def test_pods_of_groups_are_not_compared_and_the_report_names_their_workloads(self, rig):
        owner = {"kind": "RayCluster", "name": "llm", "controller": True}
        metadata = {"name": "gang", "namespace": "default", "ownerReferences": [owner]}
        rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": 5}})
        await rig.apply(shadow_policy())
        for name, group in (("a", "gang"), ("b", "unknown"), ("c", "gang"), ("d", "gone")):
            await rig.placed(theirs(name, labels={GROUP_LABEL: group}), "a")
        rig.engine.assigned.drop("default/d", None)
        assert rig.tally().skipped == {Skip.GROUP: 4}
        assert rig.report()["policies"][0]["groups"] == [
            "PodGroup default/unknown of scheduling.x-k8s.io: 1 with a node",
            "RayCluster default/llm: 2 of 5 pods that start together have a node",
        ]
        for name in ("e", "f"):
            await rig.placed(theirs(name, labels={GROUP_LABEL: "gang"}), "a")
        rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": 3}})
        assert (
            rig.report()["policies"][0]["groups"][-1]
            == "RayCluster default/llm: 4 pods have a node, of which 3 had to start together"
        )

    async def test_only_the_last_groups_are_remembered(self, rig):
        await rig.apply(shadow_policy())
        for number in range(REMEMBERED + 1):
            rig.tally().add_group(str(number))
        rig.tally().add_group("1")
        assert (len(rig.tally().groups), *rig.tally().groups)[:2] == (REMEMBERED, "2")
        assert [*rig.tally().groups][-1] == "1"

    async def test_several_policies_look_at_the_same_pods(self, rig):
        await rig.apply(shadow_policy(), shadow_policy("pack", **PACK))
        await rig.placed(theirs("web", requests={"cpu": "1"}), "b")
        assert rig.outcomes() == {ComparisonOutcome.AGREED: 1}
        assert rig.outcomes("pack") == {ComparisonOutcome.LOWER: 1}


class TestPodsThatWait:
    async def test_a_pod_that_fits_here_and_not_there_is_a_disagreement_once(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(
            theirs("web", requests={"cpu": "1"}, unschedulable="0/2 nodes are available: 2 Insufficient magic.")
        )
        await rig.appears(theirs("web", requests={"cpu": "1"}, unschedulable="0/2 nodes are available: still."))
        assert rig.outcomes() == {ComparisonOutcome.PLACEABLE: 1}
        (found,) = rig.report()["policies"][0]["disagreements"]
        assert found["theirs"] == {"message": "0/2 nodes are available: 2 Insufficient magic."}
        assert found["ours"]["node"] == "b"
        assert values(rig, "podwright_shadow_unplaced_pods") == {("eye", "fits"): 1.0}
        assert nothing_was_written(rig)

    async def test_a_pod_that_fits_nowhere_agrees(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(theirs("web", requests={"cpu": "100"}, unschedulable="0/2 nodes"))
        assert rig.outcomes() == {ComparisonOutcome.WAITS_TOO: 1}
        assert rig.report()["policies"][0]["unplaced"] == {"fits": 0, "waits": 1}

    async def test_it_is_decided_again_after_a_minute(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(theirs("web", requests={"cpu": "100"}, unschedulable="0/2 nodes"))
        rig.node("big", allocatable={"cpu": "200"})
        await settle()
        assert rig.outcomes() == {ComparisonOutcome.WAITS_TOO: 1}
        rig.now += 61
        rig.engine.wake()
        await settle()
        assert rig.outcomes() == {ComparisonOutcome.WAITS_TOO: 1, ComparisonOutcome.PLACEABLE: 1}

    async def test_a_pod_that_the_other_has_not_tried_is_not_judged(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(theirs("web", requests={"cpu": "1"}))
        assert rig.outcomes() == {}

    async def test_a_gated_pod_is_not_judged(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(theirs("web", unschedulable="x", spec={"schedulingGates": [{"name": "wait"}]}))
        assert rig.outcomes() == {}


class TestClaims:
    async def test_a_pod_with_a_claim_is_decided_when_it_appears(self, rig):
        """Afterwards its volume would tell where the other scheduler has put it."""
        rig.engine.objects("StorageClass").put(
            {
                "metadata": {"name": "late", "uid": "late"},
                "provisioner": "example.com/late",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )
        claim = {
            "metadata": {"name": "data", "namespace": "default", "uid": "data"},
            "spec": {"storageClassName": "late"},
        }
        rig.engine.objects("PersistentVolumeClaim").put(claim)
        await rig.apply(shadow_policy())
        raw = theirs(
            "db",
            requests={"cpu": "1"},
            spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]},
        )
        await rig.appears(raw)
        volume = {
            "metadata": {"name": "pv", "uid": "pv"},
            "spec": {
                "claimRef": {"name": "data", "namespace": "default", "uid": "data"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                },
            },
        }
        rig.engine.objects("PersistentVolume").put(volume)
        bound = {**claim, "spec": {**claim["spec"], "volumeName": "pv"}}
        bound["metadata"] = {**claim["metadata"], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        rig.engine.objects("PersistentVolumeClaim").put(bound)
        await rig.placed(raw, "a")
        assert rig.outcomes() == {ComparisonOutcome.LOWER: 1}
        (found,) = rig.tally().disagreements
        assert found.comparison.node == "b"
        assert found.changes >= 2


class TestBesideOwnPolicies:
    async def test_a_policy_in_shadow_mode_takes_no_pods_from_others(self, rig):
        await rig.apply(shadow_policy(schedulerName="podwright", precedence=1000, **PACK))
        raw = ours("web", requests={"cpu": "1"})
        rig.engine.shadow.pods.put(raw)
        rig.engine.pending.put(raw)
        await settle()
        assert rig.cluster.bound == [("web", "b")]
        rig.confirm(raw, "b")
        await settle()
        assert rig.outcomes() == {ComparisonOutcome.LOWER: 1}
        assert rig.tally().disagreements[0].comparison.node == "a"

    async def test_it_does_not_serve_its_scheduler_name(self, rig):
        await rig.apply(shadow_policy())
        assert not rig.engine.policies.serves("default-scheduler")
        assert rig.engine.shadow.names == {"default-scheduler"}

    async def test_metrics_of_scheduling_do_not_count_decisions_in_shadow(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), "b")
        assert values(rig, "podwright_policy_decisions_total") == {("built-in-default",): 0.0, ("eye",): 1.0}
        assert values(rig, "podwright_shadow_comparisons_total") == {("eye", "agreed"): 1.0}
        assert not any(values(rig, "scheduler_plugin_evaluation_total").values())


class TestPolicies:
    async def test_a_new_generation_begins_anew(self, rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("web", requests={"cpu": "1"}), "a")
        await rig.apply(shadow_policy(generation=2, **PACK))
        assert rig.outcomes() == {}
        await rig.placed(theirs("web-2", requests={"cpu": "1"}), "a")
        assert rig.outcomes() == {ComparisonOutcome.AGREED: 1}

    async def test_nothing_is_kept_of_a_policy_that_is_gone(self, rig):
        await rig.apply(shadow_policy())
        await rig.appears(theirs("web", requests={"cpu": "1"}, unschedulable="x"))
        rig.engine.policies.remove("eye")
        rig.engine.policies_changed()
        await settle()
        assert rig.engine.shadow.names == frozenset()
        assert len(rig.engine.shadow.pods) == 0
        assert values(rig, "podwright_shadow_comparisons_total") == {}
        assert rig.report("eye") == {}

    async def test_a_policy_that_becomes_one_in_shadow_mode_gives_its_pods_up(self, rig):
        await rig.apply(shadow_policy(schedulerName="mine", mode="Enforce"))
        assert rig.engine.policies.serves("mine")
        await rig.apply(shadow_policy(generation=2, schedulerName="mine"))
        assert not rig.engine.policies.serves("mine")


class TestPlugins:
    async def test_a_plugin_of_a_policy_in_shadow_mode_cannot_write_events(self):
        found = ShadowRig(plugins={"Loud": Loud})
        found.node("a")
        async with deciding(found):
            plugins = {"filter": {"enabled": [{"name": "Loud"}]}}
            await found.apply(shadow_policy(strategy={"type": "Custom"}, plugins=plugins))
            await found.placed(theirs("web"), "a")
            assert found.outcomes() == {ComparisonOutcome.AGREED: 1}
            assert Loud.waiting == ()
            assert nothing_was_written(found)

    async def test_a_plugin_that_fails_counts_neither_way_and_is_named(self):
        found = ShadowRig(plugins={"Broken": Broken})
        found.node("a")
        async with deciding(found):
            plugins = {"filter": {"enabled": [{"name": "Broken"}]}}
            await found.apply(shadow_policy(strategy={"type": "Custom"}, plugins=plugins))
            await found.placed(theirs("web"), "a")
            assert found.outcomes() == {ComparisonOutcome.FAILED: 1}
            assert found.tally().agreement is None
            (each,) = found.report()["policies"][0]["disagreements"]
            assert "Broken" in each["ours"]["why"]
            assert found.engine.policies.work_of("eye").evaluation_errors == 1


class Loud(Plugin, FilterPlugin):
    """A filter that writes an event about each pod, and looks at pods in Permit."""

    name = "Loud"
    waiting = None

    def __init__(self, _args, handle):
        self._handle = handle

    def filter(self, _state, pod, _node):
        Loud.waiting = tuple(self._handle.waiting_pods())
        self._handle.record(pod, "Normal", "Loud", "hello")


class Broken(Plugin, FilterPlugin):
    """A filter that raises."""

    name = "Broken"

    def filter(self, _state, _pod, _node):
        raise ValueError("no")


async def test_limits_of_queues_bind_the_decisions_too(rig):
    queues_of(rig.engine.cache).set(QueueRules("red", quotas={"cpu": Quota(limit=2000)}))
    await rig.apply(shadow_policy())
    labels = {QUEUE_LABEL: "red"}
    await rig.placed(theirs("one", labels=labels, requests={"cpu": "2"}), "b")
    assert rig.outcomes() == {ComparisonOutcome.AGREED: 1}, "the pod itself counts for nothing"
    await rig.placed(theirs("two", labels=labels, requests={"cpu": "1"}), "b")
    found = rig.report()["policies"][0]["disagreements"][-1]
    assert found["pod"] == "default/two"
    assert "red holds 2 of 2 cpu" in str(found)
