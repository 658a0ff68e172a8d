import pytest

from podwright.core.framework.status import unresolvable
from podwright.core.plugins.scheduling_gates import SchedulingGates
from support.engine.kit import Rig, deciding, settle
from support.objects.builders import make_policy
from support.plugins.kit import build, make_cache, pending


def test_a_pod_without_gates_may_enter_the_queue():
    assert build(SchedulingGates, make_cache()).pre_enqueue(pending()) is None


def test_a_gated_pod_waits_and_its_status_lists_the_gates():
    pod = pending(spec={"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]})
    status = build(SchedulingGates, make_cache()).pre_enqueue(pod)
    assert status == unresolvable("waiting for scheduling gates: [example.com/a example.com/b]")


KAI = {"schedulerName": "kai-scheduler"}


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory"])
async def test_a_pod_that_asks_kai_for_a_part_of_a_gpu_waits_until_it_no_longer_does(key):
    rig = Rig()
    rig.node("n")
    rig.engine.policies.apply(make_policy(**KAI))
    async with deciding(rig):
        rig.pod("shares", spec=KAI, metadata={"annotations": {key: "0.5"}})
        rig.pod("whole", spec=KAI, metadata={"annotations": {key: "", "gpu-fraction-num-devices": "1"}})
        rig.pod("other", metadata={"annotations": {key: "0.5"}})
        await settle()
        assert sorted(rig.cluster.bound) == [("other", "n"), ("whole", "n")]
        (told,) = rig.recorder.notes("FailedScheduling")
        assert told.startswith(f"metadata.annotations[{key}]: Podwright gives no parts of GPUs by annotation; use DRA")
        rig.pod("shares", spec=KAI, metadata={"annotations": {}})
        await settle()
    assert ("shares", "n") in rig.cluster.bound


def test_gates_are_not_told_as_failures():
    pod = pending(spec={"schedulingGates": [{"name": "example.com/a"}]})
    assert not build(SchedulingGates, make_cache()).tells_gate(pod)
