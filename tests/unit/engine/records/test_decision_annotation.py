from types import SimpleNamespace

from podwright.core.cycle import Placement
from podwright.core.framework.interface import CycleState
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, Queues, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.engine.records.decision_annotation import ANNOTATION, DEVICES_NAMED, annotations_of, decision_of
from support.objects.builders import make_node, make_pod


def decided(*devices, queues=None, **pod):
    state = CycleState()
    state.devices = devices
    raw = make_pod("p", **pod)
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


def test_the_flavors_of_the_node_in_which_the_pod_counts_are_named():
    cache = Cache()
    queues = queues_of(cache)
    queues.set(QueueRules("ml", quotas={"nvidia.com/gpu@h100": Quota()}, flavors={"h100": {"model": "H100"}}))
    in_queue = {"queues": queues, "labels": {QUEUE_LABEL: "ml"}}
    assert "flavors" not in decided(**in_queue, requests={"nvidia.com/gpu": "1"})[0]
    cache.set_node(parse_node(make_node("n", labels={"model": "H100"})))
    assert decided(**in_queue, requests={"nvidia.com/gpu": "1"})[0]["flavors"] == ["h100"]
    assert "flavors" not in decided(**in_queue)[0], "a pod that takes nothing of it"


def test_a_pod_with_many_devices_gets_a_short_annotation():
    longest = "/".join(("d" * 63, "p" * 253, "g" * 63))
    decision, raw = decided(*[longest] * 1000)
    assert (len(decision["devices"]), decision["moreDevices"]) == (DEVICES_NAMED, 1000 - DEVICES_NAMED)
    assert len(raw["metadata"]["annotations"][ANNOTATION]) < 16 * 1024
