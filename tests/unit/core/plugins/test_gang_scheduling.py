"""GangScheduling alone: the timeout that Permit returns. In the engine no member waits longer than one turn of the
loop.
"""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import Code
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_KIND
from podwright.core.plugins.gang_scheduling import GangScheduling, GangSchedulingArgs
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({}, 300.0, id="five minutes by default"),
        pytest.param({"scheduleTimeoutSeconds": 60}, 60.0, id="the group's timeout"),
    ],
)
def test_the_first_of_two_members_waits(spec: dict[str, Any], seconds: float):
    world = World()
    world.fill({"nodes": [make_node("n")]})
    metadata = {"name": "gang", "namespace": "default", "uid": "u"}
    world.cache.set_object(PLUGINS_KIND, {"metadata": metadata, "spec": {"minMember": 2, **spec}})
    plugin = GangScheduling(GangSchedulingArgs(), world)
    for name, code in (("a", Code.WAIT), ("b", None)):
        pod = parse_pod(make_pod(name, labels={GROUP_LABEL: "gang"}))
        world.cache.assume(pod, "n")
        status, waits = plugin.permit(CycleState(), pod, "n")
        assert (None if status is None else status.code) is code
        assert waits == (seconds if code is Code.WAIT else 0.0)
