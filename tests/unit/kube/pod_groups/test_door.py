"""Pod groups of both APIs as they come in."""

from __future__ import annotations

import pytest

from podwright.core.framework.features import AUTOMATIC, Features
from podwright.core.objects.pod_group import KIND, PLUGINS_KIND, fields_off
from podwright.kube.pod_groups.door import PodGroupDoor
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from support.engine.kit import Rig
from support.objects.builders import make_pod_group


def custom_group(version="1", **status):
    metadata = {"name": "gang", "namespace": "default", "uid": "g", "resourceVersion": version}
    return {"metadata": metadata, "spec": {"minMember": 2}, "status": status}


def sink_of(kind, **options):
    rig = Rig()
    events = []
    rig.engine.queue.move = lambda event, before, after: events.append(event.label)
    return PodGroupDoor(kind, rig.engine, PodGroupStatusWriter(None, lambda: 0.0), **options), rig, events


def test_a_status_change_moves_no_pod():
    sink, rig, events = sink_of(PLUGINS_KIND)
    sink.put(custom_group())
    sink.put(custom_group("2", phase="Running", running=2))
    assert len(events) == 1
    changed = custom_group("3")
    changed["spec"] = {"minMember": 1}
    sink.put(changed)
    sink.drop("default/gang", None)
    assert len(events) == 3
    assert not rig.engine.cache.groups.all()


@pytest.mark.parametrize(
    ("gate", "field"),
    [("TopologyAwareWorkloadScheduling", "near"), ("DRAWorkloadResourceClaims", "claims")],
)
def test_fields_are_removed_without_their_gate(gate, field):
    spec = {
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "shared"}],
    }
    for on in (True, False):
        sink, rig, _ = sink_of(KIND, without=fields_off(Features(AUTOMATIC | {gate: on}).enabled))
        sink.put(make_pod_group(**spec))
        (group,) = rig.engine.cache.groups.all()
        assert bool(getattr(group, field)) is on
        assert group.near or group.claims, "the other field stays"


@pytest.mark.parametrize(
    "wrong", [{"spec": None}, {"spec": []}, {"status": []}, {"status": {"conditions": "?"}}, {"spec": {"minMember": 0}}]
)
def test_an_invalid_group_does_not_stop_the_next_one(wrong):
    for without in ((), ("schedulingConstraints",)):
        sink, rig, _ = sink_of(PLUGINS_KIND, without=without)
        sink.put(custom_group() | wrong)
        sink.put(custom_group("2"))
        assert [group.min_count for group in rig.engine.cache.groups.all()] == [2]
