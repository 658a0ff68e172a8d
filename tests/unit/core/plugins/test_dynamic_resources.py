import re

import pytest

from podwright.core.framework.args import ArgsError
from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP, Code, Status, unschedulable
from podwright.core.objects.node import parse_node
from podwright.core.plugins.dynamic_resources import DynamicResources
from support.objects.builders import make_node
from support.plugins.kit import build, make_cache, pending, pre_filter, raw_scores, scores

CLASS = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}
CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}


def test_pods_without_claims_skip_the_filter_and_score_0():
    plugin = build(DynamicResources, make_cache([make_node("a"), make_node("b")]))
    assert pre_filter(plugin, pending(requests={"cpu": "1"})) == SKIP
    assert raw_scores(plugin, pending()) == {"a": 0, "b": 0}
    assert scores(plugin, pending()) == {"a": 0, "b": 0}


def test_a_pod_with_claims_is_rejected():
    cache = make_cache([make_node("a")])
    plugin = build(DynamicResources, cache)
    status = pre_filter(plugin, pending(spec=CLAIMING))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "this version of Podwright does not allocate devices, and the pod has claims (gpu)"


def test_a_pod_with_claims_fits_no_node_even_if_pre_filter_is_disabled():
    cache = make_cache([make_node("a")])
    plugin = build(DynamicResources, cache)
    pod = pending(spec=CLAIMING)
    assert plugin.filter(CycleState(), pod, cache.present("a")).rejected
    assert not plugin.filter_all(CycleState(), pod, cache.table).ok.any()
    assert plugin.filter_all(CycleState(), pending(), cache.table) is None


@pytest.mark.parametrize(
    "resource, held",
    [
        pytest.param("example.com/gpu", True, id="the resource that the class names"),
        pytest.param("deviceclass.resource.kubernetes.io/gpus", True, id="the implicit resource of each class"),
        pytest.param("example.com/fpga", False, id="a resource without a class is left to NodeResourcesFit"),
    ],
)
def test_extended_resources_of_a_device_class(resource, held):
    cache = make_cache([make_node("a")])
    cache.set_object("DeviceClass", CLASS)
    status = pre_filter(build(DynamicResources, cache), pending(requests={resource: "1"}))
    if held:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert f"no node offers {resource} (DeviceClass gpus)" in status.message
    else:
        assert status == SKIP


def test_a_resource_that_a_node_offers_does_not_need_devices():
    cache = make_cache([make_node("a")])
    cache.set_object("DeviceClass", CLASS)
    plugin = build(DynamicResources, cache)
    pod = pending(requests={"example.com/gpu": "1"})
    assert pre_filter(plugin, pod).rejected
    cache.set_node(parse_node(make_node("b", allocatable={"example.com/gpu": "4"})))
    assert pre_filter(plugin, pod) == SKIP


def test_a_deleted_device_class_no_longer_counts():
    cache = make_cache([make_node("a")])
    cache.set_object("DeviceClass", CLASS)
    plugin = build(DynamicResources, cache)
    pod = pending(requests={"example.com/gpu": "1"})
    assert pre_filter(plugin, pod).rejected
    cache.remove_object("DeviceClass", "gpus")
    assert pre_filter(plugin, pod) == SKIP


def test_a_request_of_0_does_not_need_devices():
    cache = make_cache([make_node("a")])
    cache.set_object("DeviceClass", CLASS)
    assert pre_filter(build(DynamicResources, cache), pending(requests={"example.com/gpu": "0"})) == SKIP


def test_post_filter_fails_only_if_pre_filter_never_ran():
    plugin = build(DynamicResources, make_cache())
    assert plugin.post_filter(CycleState(), pending(), None) == (None, Status(Code.ERROR, ("not found",)))
    state = CycleState()
    pre_filter(plugin, pending(), state)
    assert plugin.post_filter(state, pending(), None) == (None, unschedulable())


def test_post_filter_never_fails_with_the_gate_off():
    plugin = build(DynamicResources, make_cache(), gates={"DynamicResourceAllocation": False})
    assert plugin.post_filter(CycleState(), pending(), None) == (None, unschedulable())


def test_no_event_requeues_pods_with_claims():
    for hint in build(DynamicResources, make_cache()).hints():
        assert hint.function(pending(spec=CLAIMING), None, None) is Hint.SKIP
        assert hint.function(pending(), None, None) is Hint.QUEUE


@pytest.mark.parametrize(
    "args, problem",
    [
        pytest.param({}, "", id="no timeouts"),
        pytest.param({"filterTimeout": "0", "bindingTimeout": "1m30s"}, "", id="a short and a long timeout"),
        pytest.param({"filterTimeout": "1.5h2ms"}, "", id="hours and milliseconds"),
        pytest.param(
            {"filterTimeout": "-1s"}, 'filterTimeout: Invalid value: "-1s": must be zero or', id="a negative timeout"
        ),
        pytest.param(
            {"bindingTimeout": "999ms"},
            'bindingTimeout: Invalid value: "999ms": must be at',
            id="a timeout that is too short",
        ),
        pytest.param(
            {"bindingTimeout": "10"}, 'bindingTimeout: time: invalid duration "10"', id="a timeout without a unit"
        ),
        pytest.param({"filterTimeout": ""}, 'filterTimeout: time: invalid duration ""', id="an empty timeout"),
        pytest.param({"filterTimeout": 10}, "filterTimeout: expected a string", id="a number"),
    ],
)
def test_timeouts_are_validated(args, problem):
    if not problem:
        build(DynamicResources, make_cache(), args)
        return
    with pytest.raises(ArgsError, match=re.escape(f"args.{problem}")):
        build(DynamicResources, make_cache(), args)
