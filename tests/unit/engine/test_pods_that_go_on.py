"""Pods that have a node and start there: told only where a plugin wants to know."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import ASSIGNED_POD, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, Plugin
from podwright.core.framework.status import unschedulable
from support.engine.kit import Rig, custom_policy, deciding, settle
from support.objects.builders import make_pod

TOLD = "AssignedPodUpdate"


class OneStart(Plugin, FilterPlugin):
    """No node starts two pods at once. It has no hints, so any event may help."""

    name = "OneStart"

    def filter(self, _state, _pod, node):
        starting = [pod for pod in node.pods.values() if pod.phase == "Pending"]
        return unschedulable("another pod starts there") if starting else None


class OneStartByHint(OneStart, EnqueueExtensions):
    def hints(self):
        return [EventHint(ClusterEvent(ASSIGNED_POD, Action.UPDATE))]


class OneStartAtOnce(OneStart, EnqueueExtensions):
    def hints(self):
        return [EventHint(ClusterEvent(ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL))]


def there(phase, **status):
    return make_pod("there", node="a", status={"phase": phase, **status})


def rig_with(plugin):
    rig = Rig({"OneStart": plugin})
    rig.node("a")
    rig.engine.assigned.put(there("Pending"))
    assert rig.engine.policies.apply(custom_policy("filter", "OneStart")).accepted
    rig.pod("web")
    return rig


def told(rig, change):
    """Whether what happens to a pod with a node is kept for one in flight."""
    rig.pod("flies")
    queued = rig.engine.queue.pop()
    rig.engine.assigned.put(change)
    events = dict(rig.engine.queue.in_flight_events())
    rig.engine.queue.done(queued.uid)
    return TOLD in events


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        pytest.param(OneStart, [("web", "a")], id="a plugin without hints"),
        pytest.param(OneStartByHint, [("web", "a")], id="one that asks for updates"),
        pytest.param(OneStartAtOnce, [], id="one that asks for other things"),
    ],
)
async def test_a_pod_that_waits_until_another_has_started(plugin, expected):
    rig = rig_with(plugin)
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        rig.engine.assigned.put(there("Running"))
        await settle()
        assert rig.cluster.bound == expected


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(there("Running"), id="it runs"),
        pytest.param(there("Pending", startTime="2026-01-01T00:00:00Z"), id="its node has it"),
    ],
)
def test_without_such_a_plugin_nothing_is_kept_of_pods_that_go_on(change):
    rig = rig_with(OneStart)
    assert told(rig, change)
    rig.engine.policies.remove("custom")
    rig.engine.assigned.put(there("Pending"))
    assert not told(rig, change)


def test_a_change_that_no_plugin_could_see_is_not_told():
    rig = rig_with(OneStart)
    assert not told(rig, there("Pending", conditions=[{"type": "PodReadyToStartContainers", "status": "True"}]))
