from podwright.core.framework.status import unresolvable
from podwright.core.plugins.scheduling_gates import SchedulingGates
from support.plugins.kit import build, make_cache, pending


def test_a_pod_without_gates_may_enter_the_queue():
    assert build(SchedulingGates, make_cache()).pre_enqueue(pending()) is None


def test_a_gated_pod_waits_and_its_status_lists_the_gates():
    pod = pending(spec={"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]})
    status = build(SchedulingGates, make_cache()).pre_enqueue(pod)
    assert status == unresolvable("waiting for scheduling gates: [example.com/a example.com/b]")
