from types import SimpleNamespace

from podwright.core.cycle import Placement
from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import Queues
from podwright.core.state.cache import Cache
from podwright.engine.decisions.decision_annotation import ANNOTATION, DEVICES_NAMED, annotations_of, decision_of
from support.objects.builders import make_pod


def decided(*devices, queues=None):
    state = CycleState()
    state.devices = devices
    raw = make_pod("p")
    pod = parse_pod(raw)
    placement = Placement(
        pod=pod, node_name="n", state=state, score=None, runner_up=None, evaluated=1, feasible=1, rejected={}
    )
    policy = SimpleNamespace(name="policy", generation=1)
    raw["metadata"] |= {
        "annotations": annotations_of(pod, policy, placement, "instance", queues or Queues(Cache())),
        "uid": pod.uid,
    }
    return decision_of(raw), raw


def test_the_devices_of_the_pod_are_named():
    decision, _ = decided("gpu.example.com/n/gpu-0", "gpu.example.com/n/gpu-1")
    assert decision["devices"] == ["gpu.example.com/n/gpu-0", "gpu.example.com/n/gpu-1"]
    assert "moreDevices" not in decision
    assert "devices" not in decided()[0], "a pod without devices"


def test_a_pod_with_many_devices_gets_a_short_annotation():
    longest = "/".join(("d" * 63, "p" * 253, "g" * 63))
    decision, raw = decided(*[longest] * 1000)
    assert (len(decision["devices"]), decision["moreDevices"]) == (DEVICES_NAMED, 1000 - DEVICES_NAMED)
    assert len(raw["metadata"]["annotations"][ANNOTATION]) < 16 * 1024
