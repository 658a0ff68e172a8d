"""Updates of assigned pods that have no specific event are reported only if a plugin registered a hint for them."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import ASSIGNED_POD, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, Plugin
from podwright.core.framework.status import unschedulable
from support.engine.kit import Rig, custom_policy, deciding, settle
from support.objects.builders import make_pod

UPDATE = "AssignedPodUpdate"


class OneStart(Plugin, FilterPlugin):
    """Lets a node start one pod at a time. It has no hints, so any event may help."""

    name = "OneStart"

    def filter(self, _state, _pod, node):
        starting = [pod for pod in node.pods.values() if pod.phase == "Pending"]
        return unschedulable("another pod starts there") if starting else None


class OneStartWithHint(OneStart, EnqueueExtensions):
    def hints(self):
        return [EventHint(ClusterEvent(ASSIGNED_POD, Action.UPDATE))]


class OneStartWithOtherHints(OneStart, EnqueueExtensions):
    def hints(self):
        return [EventHint(ClusterEvent(ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL))]


def starting_pod(phase, **status):
    return make_pod("there", node="a", status={"phase": phase, **status})


def rig_with(plugin):
    rig = Rig({"OneStart": plugin})
    rig.node("a")
    rig.engine.assigned.put(starting_pod("Pending"))
    assert rig.engine.policies.apply(custom_policy("filter", "OneStart")).accepted
    rig.pod("web")
    return rig


def recorded(rig, change):
    """True if the update of the assigned pod is recorded for a pod in flight."""
    rig.pod("in-flight")
    queued = rig.engine.queue.pop()
    rig.engine.assigned.put(change)
    events = dict(rig.engine.queue.in_flight_events())
    rig.engine.queue.done(queued.uid)
    return UPDATE in events


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        pytest.param(OneStart, [("web", "a")], id="a plugin without hints"),
        pytest.param(OneStartWithHint, [("web", "a")], id="one with a hint for updates"),
        pytest.param(OneStartWithOtherHints, [], id="one with other hints"),
    ],
)
async def test_a_pod_waits_until_another_has_started(plugin, expected):
    rig = rig_with(plugin)
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        rig.engine.assigned.put(starting_pod("Running"))
        await settle()
        assert rig.cluster.bound == expected


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(starting_pod("Running"), id="it runs"),
        pytest.param(starting_pod("Pending", startTime="2026-01-01T00:00:00Z"), id="its kubelet has accepted it"),
    ],
)
def test_without_such_a_plugin_updates_are_not_recorded(change):
    rig = rig_with(OneStart)
    assert recorded(rig, change)
    rig.engine.policies.remove("custom")
    rig.engine.assigned.put(starting_pod("Pending"))
    assert not recorded(rig, change)


def test_a_change_that_no_plugin_sees_is_not_recorded():
    rig = rig_with(OneStart)
    assert not recorded(
        rig, starting_pod("Pending", conditions=[{"type": "PodReadyToStartContainers", "status": "True"}])
    )


def test_of_pods_that_come_together_each_counts_whatever_is_wrong_with_the_others():
    rig = Rig()
    rig.node("a")
    nameless, unreadable = {"metadata": {}}, make_pod("unreadable", node="a")
    unreadable["metadata"]["creationTimestamp"] = "yesterday"
    rig.engine.assigned.put_all([make_pod("first", node="a"), nameless, unreadable, make_pod("last", node="a")])
    assert [pod.name for pod in rig.engine.cache.nodes["a"].pods.values()] == ["first", "unreadable", "last"]
