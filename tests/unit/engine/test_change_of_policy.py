"""Pods that come under another policy, by their own labels or their namespace's, are asked about again."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, PermitPlugin, Plugin, PreEnqueuePlugin
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from support.engine.kit import Rig, deciding, ours, settle
from support.objects.builders import make_namespace

STRICT, FREE = {"tier": "strict"}, {"tier": "free"}


class Never(Plugin, FilterPlugin, EnqueueExtensions):
    """Only a node that comes could help."""

    name = "Never"

    def filter(self, _state, _pod, _node):
        return unschedulable("never")

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD))]


class Gate(Plugin, PreEnqueuePlugin, EnqueueExtensions):
    """Only a node that comes could open it."""

    name = "Gate"

    def pre_enqueue(self, _pod):
        return unresolvable("not yet")

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD))]


class Later(Plugin, PermitPlugin, EnqueueExtensions):
    """Makes pods wait until somebody turns them down."""

    name = "Later"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.DELETE))]


def policy(point, plugin, **match):
    return {
        "metadata": {"name": "strict", "uid": "strict", "generation": 1},
        "spec": {
            "precedence": 10,
            "match": match,
            "strategy": {"type": "Custom"},
            "plugins": {point: {"enabled": [{"name": plugin.name}]}},
        },
    }


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


async def time_passes(r, seconds):
    r.now += seconds
    r.engine.wake()
    await settle()


PLUGINS = [
    pytest.param("filter", Never, "unschedulable", id="it was rejected"),
    pytest.param("preEnqueue", Gate, "gated", id="it was held by a gate"),
]


@pytest.mark.parametrize(("point", "plugin", "place"), PLUGINS)
async def test_a_pod_whose_label_puts_it_under_another_policy_is_tried_under_that_one(point, plugin, place):
    r = rig(labelled(point, plugin))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.counts == {place: 1}
        r.engine.pending.put(ours("web", labels=FREE))
        await settle()
        assert r.cluster.bound == [("web", "a")]


@pytest.mark.parametrize(("point", "plugin", "place"), PLUGINS)
async def test_a_namespace_whose_labels_change_brings_its_pods_under_another_policy(point, plugin, place):
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


async def test_a_namespace_that_is_gone_has_no_labels():
    r = rig(in_namespace("filter", Never))
    namespace(r, "1", STRICT)
    r.pod("web")
    async with deciding(r):
        assert r.counts == {"unschedulable": 1}
        r.engine.objects("Namespace").drop("/default", None)
        await settle()
        assert r.cluster.bound == [("web", "a")]


async def test_an_affinity_that_only_the_policy_adds_goes_with_it():
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


async def test_a_label_that_leaves_the_policy_as_it_is_is_no_reason_to_try_again():
    r = rig(labelled("filter", Never))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        r.engine.pending.put(ours("web", labels={**STRICT, "more": "1"}))
        namespace(r, "1", FREE)
        await settle()
        assert r.counts == {"unschedulable": 1}
        assert len(r.recorder.notes("FailedScheduling")) == 1


@pytest.mark.parametrize("way", ["its label", "its namespace"])
async def test_a_policy_that_changes_while_the_pod_is_in_flight_counts_when_it_fails(way):
    r = rig((labelled if way == "its label" else in_namespace)("permit", Later))
    namespace(r, "1", STRICT)
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.placed_on("web") == "a"
        if way == "its label":
            r.engine.pending.put(ours("web", labels=FREE))
        else:
            namespace(r, "2", {})
        for waiting in r.engine.binding_cycles.waiting():
            waiting.reject("Later", "too late")
        await settle()
        await time_passes(r, 3)
        assert r.cluster.bound == [("web", "a")]


async def test_a_pod_whose_attempt_was_an_error_sits_its_backoff_out_under_any_policy():
    r = rig(labelled("filter", Never))
    queue = r.engine.queue
    r.pod("web", labels=FREE)
    queue.fault(queue.pop())
    async with deciding(r):
        r.engine.pending.put(ours("web", labels=STRICT))
        await settle()
        assert r.counts == {"backoff": 1}
        await time_passes(r, 3)
        assert r.counts == {"unschedulable": 1}
