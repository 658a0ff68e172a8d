"""Gangs that ask for what cannot be: an event and the status say why, and other pods are scheduled."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.gangs.joint import COUNTED, PROVED
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from support.engine.kit import Rig, deciding, settle
from support.engine.long_work import FakeChildren
from support.gangs.by_trial import by_trial
from support.objects.builders import in_group, make_pod_group
from support.waiting import until

LABELS = ({"zone": "a"}, {"rack": "r1"}, {"zone": "b", "rack": "r2"})


def near(*keys: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def beside_and_apart() -> dict[str, Any]:
    """Each member must be on the host of another one, and on none where there is another one."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"of": "gang"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": required, "podAntiAffinity": required}}


@pytest.mark.parametrize(
    ("members", "group", "spec", "told"),
    [
        pytest.param(2, near("block"), {}, "no node has the label block", id="a level that no node has"),
        pytest.param(
            2, near("zone", "row"), {}, "no node has the labels zone and row", id="levels of which nodes have half"
        ),
        pytest.param(5, near("zone", "rack"), {}, "0/1 placements are available", id="nodes with half of the labels"),
        pytest.param(2, {}, beside_and_apart(), PROVED, id="constraints that contradict each other"),
        pytest.param(10_000, {}, {}, COUNTED, id="a gang of 10,000"),
    ],
)
async def test_why_a_gang_waits_is_told_and_other_pods_are_scheduled(members, group, spec, told):
    rig = Rig(solve=by_trial, children=FakeChildren())
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for index, labels in enumerate(LABELS):
        rig.node(f"n{index}", labels={"kubernetes.io/hostname": f"n{index}", **labels}, allocatable={"cpu": "4"})
    rig.engine.objects(KIND).put(make_pod_group("gang", members, **group))
    for index in range(members):
        rig.pod(f"m{index}", requests={"cpu": "1"}, labels={"of": "gang"}, spec={**in_group(), **spec})
    rig.pod("other", requests={"cpu": "1"})

    def has_come() -> bool:
        rig.now += 0.1
        rig.engine.wake()
        return bool(rig.groups.written and rig.cluster.bound)

    async with deciding(rig):
        await until(has_come)
        await settle()
    assert told in rig.groups.written[-1][2]
    assert any(told in note for note in rig.recorder.notes("FailedScheduling")), rig.recorder.notes("FailedScheduling")
    assert [name for name, _ in rig.cluster.bound] == ["other"]
