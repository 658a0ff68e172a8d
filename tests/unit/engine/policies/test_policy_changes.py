"""Pods that move to another policy, by their own labels or their namespace's, are retried under it."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, PermitPlugin, Plugin, PreEnqueuePlugin
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from support.engine.kit import Rig, deciding, ours, settle
from support.objects.builders import make_namespace, make_policy

STRICT, FREE = {"tier": "strict"}, {"tier": "free"}


class Never(Plugin, FilterPlugin, EnqueueExtensions):
    """Rejects every pod; only a new node may help."""

    name = "Never"

    def filter(self, _state, _pod, _node):
        return unschedulable("never")

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD))]


class Gate(Plugin, PreEnqueuePlugin, EnqueueExtensions):
    """Gates every pod; only a new node may help."""

    name = "Gate"

    def pre_enqueue(self, _pod):
        return unresolvable("not yet")

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD))]


class Later(Plugin, PermitPlugin, EnqueueExtensions):
    """Makes pods wait in Permit until the test rejects them."""

    name = "Later"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.DELETE))]


def policy(point, plugin, **match):
    plugins = {point: {"enabled": [{"name": plugin.name}]}}
    return make_policy("strict", 1, "strict", precedence=10, match=match, strategy={"type": "Custom"}, plugins=plugins)


def rig(*policies):
    r = Rig({plugin.name: plugin for plugin in (Never, Gate, Later)})
    r.node("a", labels={"zone": "1"})
    for each in policies:
        outcome = r.engine.policies.apply(each)
        assert outcome.accepted, outcome.message
    return r


def labelled(point, plugin):
    return policy(point, plugin, podSelector={"matchLabels": STRICT})


def in_namespace(point, plugin):
    return policy(point, plugin, namespaceSelector={"matchLabels": STRICT})


def namespace(r, version, labels, name="default"):
    raw = make_namespace(name, labels)
    raw["metadata"]["resourceVersion"] = version
    r.engine.objects("Namespace").put(raw)


async def advance(r, seconds):
    r.now += seconds
    r.engine.wake()
    await settle()


PLUGINS = [
    pytest.param("filter", Never, "unschedulable", id="it was rejected"),
    pytest.param("preEnqueue", Gate, "gated", id="it was gated"),
]


@pytest.mark.parametrize(("point", "plugin", "place"), PLUGINS)
async def test_a_pod_whose_labels_select_another_policy_is_retried_under_it(point, plugin, place):
    r = rig(labelled(point, plugin))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.counts == {place: 1}
        r.engine.pending.put(ours("web", labels=FREE))
        await settle()
        assert r.cluster.bound == [("web", "a")]


@pytest.mark.parametrize(("point", "plugin", "place"), PLUGINS)
async def test_changed_namespace_labels_move_the_pods_to_another_policy(point, plugin, place):
    r = rig(in_namespace(point, plugin))
    for name in ("default", "other"):
        namespace(r, "1", STRICT, name)
    r.pod("web")
    r.pod("stays", namespace="other")
    async with deciding(r):
        assert r.counts == {place: 2}
        namespace(r, "2", {})
        await settle()
        assert r.cluster.bound == [("web", "a")]
        assert r.counts == {place: 1}


async def test_a_deleted_namespace_has_no_labels():
    r = rig(in_namespace("filter", Never))
    namespace(r, "1", STRICT)
    r.pod("web")
    async with deciding(r):
        assert r.counts == {"unschedulable": 1}
        r.engine.objects("Namespace").drop("/default", None)
        await settle()
        assert r.cluster.bound == [("web", "a")]


async def test_the_added_affinity_of_a_policy_no_longer_applies_under_another_one():
    added = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}],
    }
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": added}}
    strict = {
        "metadata": {"name": "strict", "uid": "strict", "generation": 1},
        "spec": {
            "precedence": 10,
            "match": {"podSelector": {"matchLabels": STRICT}},
            "pluginConfig": [{"name": "NodeAffinity", "args": args}],
        },
    }
    r = rig(strict)
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.counts == {"unschedulable": 1}
        r.engine.pending.put(ours("web", labels=FREE))
        await settle()
        assert r.cluster.bound == [("web", "a")]


async def test_a_label_that_does_not_change_the_policy_does_not_retry_the_pod():
    r = rig(labelled("filter", Never))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        r.engine.pending.put(ours("web", labels={**STRICT, "more": "1"}))
        namespace(r, "1", FREE)
        await settle()
        assert r.counts == {"unschedulable": 1}
        assert len(r.recorder.notes("FailedScheduling")) == 1


@pytest.mark.parametrize("changed", ["its label", "its namespace"])
async def test_a_pod_that_changes_policy_in_flight_is_retried_under_the_new_one(changed):
    r = rig((labelled if changed == "its label" else in_namespace)("permit", Later))
    namespace(r, "1", STRICT)
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.placed_on("web") == "a"
        if changed == "its label":
            r.engine.pending.put(ours("web", labels=FREE))
        else:
            namespace(r, "2", {})
        for waiting in r.engine.binding_cycles.waiting():
            waiting.reject("Later", "too late")
        await settle()
        await advance(r, 3)
        assert r.cluster.bound == [("web", "a")]


async def test_a_pod_that_failed_with_an_error_keeps_its_backoff_under_another_policy():
    r = rig(labelled("filter", Never))
    queue = r.engine.queue
    r.pod("web", labels=FREE)
    queue.fault(queue.pop())
    async with deciding(r):
        r.engine.pending.put(ours("web", labels=STRICT))
        await settle()
        assert r.counts == {"backoff": 1}
        await advance(r, 3)
        assert r.counts == {"unschedulable": 1}
