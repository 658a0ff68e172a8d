"""GangScheduling alone: the timeout that Permit returns (in the engine no member waits longer than one turn of the
loop), and its hints.
"""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.framework.cluster_events import Action, ClusterEvent, Hint
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import Code
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    COMPOSITE_API,
    COMPOSITE_KIND,
    GROUP_LABEL,
    KIND,
    PLUGINS_API,
    PLUGINS_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
)
from podwright.core.plugins import gang_scheduling as module
from podwright.core.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from podwright.core.queue.pods_of_plugin import PodsOfPlugin
from podwright.simulator.world import World
from support.objects.builders import in_group, make_node, make_pod, make_pod_group


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({}, 300.0, id="five minutes by default"),
        pytest.param({"scheduleTimeoutSeconds": 60}, 60.0, id="the group's timeout"),
    ],
)
def test_members_wait_while_their_gang_starts(spec: dict[str, Any], seconds: float):
    world = World()
    world.fill({"nodes": [make_node("n")]})
    metadata = {"name": "gang", "namespace": "default", "uid": "u"}
    world.cache.set_object(PLUGINS_KIND, {"metadata": metadata, "spec": {"minMember": 2, **spec}})
    plugin = GangScheduling(GangSchedulingArgs(), world)
    pod = parse_pod(make_pod("a", labels={GROUP_LABEL: "gang"}))
    world.cache.assume(pod, "n")
    for starting, code in (([f"{PLUGINS_API}:default/gang"], Code.WAIT), ([], None)):
        world.cache.groups.starting = {*starting}
        status, waits = plugin.permit(CycleState(), pod, "n")
        assert (None if status is None else status.code) is code
        assert waits == (seconds if code is Code.WAIT else 0.0)


def test_a_change_of_a_group_is_read_once_for_all_of_its_pods(monkeypatch):
    read = []
    parse = module.parse_pod_group
    monkeypatch.setattr(module, "parse_pod_group", lambda *args: (read.append(args), parse(*args))[1])
    plugin, event = GangScheduling(GangSchedulingArgs(), World()), ClusterEvent(PLUGINS_KIND, Action.UPDATE)
    hint = next(each.function for each in plugin.hints() if each.event == event)
    pods = [parse_pod(make_pod(f"p{index}", labels={GROUP_LABEL: "gang"})) for index in range(20)]

    def hints(*minimums: int) -> set[Hint]:
        metadata = {"name": "gang", "namespace": "default"}
        before, after = ({"metadata": metadata, "spec": {"minMember": count}} for count in minimums)
        return {hint(pod, before, after) for pod in pods}

    assert hints(3, 2) == {Hint.QUEUE}
    assert hints(2, 2) == {Hint.SKIP}
    assert len(read) == 4


def test_a_group_of_volcano_whose_resources_become_readable_is_tried_again():
    world = World()
    world.cache.groups.serve(VOLCANO_API)
    event = ClusterEvent(VOLCANO_KIND, Action.UPDATE)
    hint = next(each.function for each in GangScheduling(GangSchedulingArgs(), world).hints() if each.event == event)
    pod = parse_pod(make_pod("p", metadata={"annotations": {"scheduling.k8s.io/group-name": "gang"}}))
    metadata = {"name": "gang", "namespace": "default"}
    unreadable, without = ({"metadata": metadata, "spec": spec} for spec in ({"minResources": {"cpu": "x"}}, {}))
    assert hint(pod, unreadable, without) is Hint.QUEUE
    assert hint(pod, unreadable, {**unreadable}) is Hint.SKIP


def test_a_group_in_a_hierarchy_asks_only_the_pods_of_the_hierarchy_and_only_once_it_has_enough():
    world = World()
    groups = world.cache.groups
    groups.serve(COMPOSITE_API)
    plugin = GangScheduling(GangSchedulingArgs(), world)
    hints = plugin.hints()
    waiting = PodsOfPlugin[str](hints)
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    top = {"metadata": {"name": "top", "namespace": "default"}, "spec": policy}

    def asked(kind: str, raw: Any) -> set[str]:
        world.cache.set_object(kind, raw)
        hint = next(each for each in hints if each.event == ClusterEvent(kind, Action.ADD))
        return set(waiting.concerned(hint, None, raw))

    for name, group in (("a", "g0"), ("b", "g1"), ("c", "alone"), ("d", "other")):
        pod = parse_pod(make_pod(name, uid=name, spec=in_group(group)))
        groups.add_waiting(pod)
        waiting.add(name, pod, name)
    assert asked(KIND, make_pod_group("alone", 1)) == {"c"}
    assert asked(KIND, make_pod_group("g0", 1, parentCompositePodGroupName="top")) == {"a"}
    assert asked(COMPOSITE_KIND, top) == set()
    assert asked(KIND, make_pod_group("g1", 1, parentCompositePodGroupName="top")) == {"a", "b"}
    assert asked(COMPOSITE_KIND, top) == {"a", "b"}
