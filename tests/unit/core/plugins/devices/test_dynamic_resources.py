import re

import pytest

from podwright.core.framework.args import ArgsError
from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP, Code, Status, unschedulable
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from support.objects.builders import make_node
from support.objects.devices import (
    allocated,
    claiming,
    exactly,
    first_available,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selector,
)
from support.plugins.devices import add, cluster, devices_of
from support.plugins.kit import build, make_cache, pending, pre_filter, raw_scores, scores, verdicts

TOO_FEW = "cannot allocate all claims"
A100 = 'device.attributes["gpu.example.com"].model == "a100"'


def gpus(node, count=2, **fields):
    return make_slice(f"{node}-gpus", [make_device(f"gpu-{i}", **fields) for i in range(count)], node=node)


def test_pods_without_claims_skip_the_filter_and_score_0():
    plugin = build(DynamicResources, cluster(gpus("a")))
    assert pre_filter(plugin, pending(requests={"cpu": "1"})) == SKIP
    assert raw_scores(plugin, pending()) == {"a": 0, "b": 0}
    assert scores(plugin, pending()) == {"a": 0, "b": 0}


def test_only_changes_of_claims_and_of_the_pod_open_the_gate():
    """Otherwise, each slice of a driver that flaps costs a look at each pod whose claims do not exist yet."""
    hints = build(DynamicResources, cluster()).hints()
    assert {hint.event.resource for hint in hints if hint.opens_gate} == {"ResourceClaim", "Pod"}
    assert {hint.event.resource for hint in hints} > {"ResourceSlice", "DeviceClass", "Node"}


def test_a_claim_is_allocated_where_enough_devices_are_free():
    plugin = build(DynamicResources, cluster(gpus("a"), gpus("b", 1), make_claim("mine", exactly(count=2))))
    pod = pending(spec=claiming("mine"))
    assert verdicts(plugin, pod) == {"a": "", "b": TOO_FEW}
    assert devices_of(plugin, pod, "a") == {"mine": ["gpu-0", "gpu-1"]}


def test_devices_of_other_claims_are_taken():
    cache = cluster(gpus("a"), make_claim("other", exactly(), status=allocated("gpu-0", node="a")))
    add(cache, make_claim("mine", exactly()))
    plugin, pod = build(DynamicResources, cache), pending(spec=claiming("mine"))
    assert devices_of(plugin, pod, "a") == {"mine": ["gpu-1"]}
    add(cache, make_claim("third", exactly(), status=allocated("gpu-1", node="a")))
    assert verdicts(plugin, pod) == {"a": TOO_FEW, "b": TOO_FEW}
    cache.remove_object("ResourceClaim", "other", "default")
    assert verdicts(plugin, pod) == {"a": "", "b": TOO_FEW}


def test_selectors_of_class_and_request_choose_devices():
    cache = cluster(gpus("a", attributes={"model": "a100"}), gpus("b", attributes={"model": "l4"}))
    add(cache, make_class("a100", A100))
    add(cache, make_claim("by-class", exactly(device_class="a100")))
    add(cache, make_claim("by-request", exactly(selectors=[selector(A100)])))
    plugin = build(DynamicResources, cache)
    for name in ("by-class", "by-request"):
        assert verdicts(plugin, pending(spec=claiming(name))) == {"a": "", "b": TOO_FEW}


def test_a_selector_that_fails_on_a_device_fails_the_attempt():
    cache = cluster(gpus("a"), make_claim("mine", exactly(selectors=[selector(A100)])))
    text = (
        'running "DynamicResources" filter plugin: claim default/mine: selector #0 on device gpu.example.com/a/gpu-0: '
        "CEL runtime error: no such key: model. consider using CEL optional chaining"
    )
    with pytest.raises(PluginError, match=re.escape(text)):
        verdicts(build(DynamicResources, cache), pending(spec=claiming("mine")))


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        pytest.param(
            [exactly("one", count=20), exactly("two", count=20)],
            "request two: adding 20 devices exceeds the claim limit of 32, with 20 already accounted for",
            id="the request that exceeds the limit is named",
        ),
        pytest.param(
            [exactly("one", count=2**62), exactly("two", count=2**62)],
            f"request one: adding {2**62} devices exceeds the claim limit of 32, with 0 already accounted for",
            id="counts whose sum is no 64-bit number",
        ),
        pytest.param(
            [exactly("one", count=20), first_available("list", exactly("x", count=24), exactly("y", count=21))],
            "request list: adding 21 devices exceeds the claim limit of 32, with 20 already accounted for",
            id="of alternatives the smallest counts",
        ),
        pytest.param(
            [exactly("one", count=33), exactly("two", selectors=[{}])],
            "request one: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for",
            id="the first request that is wrong is named",
        ),
    ],
)
def test_a_claim_for_too_many_devices_names_the_request(requests, text):
    cache = cluster(gpus("a", 40), make_claim("mine", *requests))
    with pytest.raises(PluginError, match=re.escape(f"claim default/mine, {text}")):
        verdicts(build(DynamicResources, cache), pending(spec=claiming("mine")))


def test_a_claim_may_ask_for_exactly_the_limit():
    claim = make_claim(
        "mine", exactly("one", count=16), first_available("two", exactly("x", count=2**62), exactly("y", count=16))
    )
    plugin = build(DynamicResources, cluster(gpus("a", 40), claim))
    assert verdicts(plugin, pending(spec=claiming("mine")))["a"] == ""


def test_a_rejected_node_is_not_searched():
    """A selector that fails on it fails nothing: the node is out already."""
    cache = cluster(gpus("a"), gpus("b", attributes={"model": "a100"}))
    add(cache, make_claim("mine", exactly(selectors=[selector(A100)])))
    plugin, state, pod = build(DynamicResources, cache), CycleState(), pending(spec=claiming("mine"))
    assert plugin.pre_filter(state, pod) is None
    state.left = cache.table.valid.copy()
    state.left[cache.table.slot_of("a")] = False
    assert plugin.filter_all(state, pod, cache.table).ok[cache.table.slot_of("b")]


def test_an_allocated_claim_is_available_where_its_devices_are():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="b"))
    plugin = build(DynamicResources, cluster(gpus("a"), gpus("b"), claim))
    assert verdicts(plugin, pending(spec=claiming("mine"))) == {
        "a": "resourceclaim not available on the node",
        "b": "",
    }


@pytest.mark.parametrize(
    "spec, status, claims, text",
    [
        pytest.param(
            claiming("absent"), {}, [], 'could not find ResourceClaim "default/absent"', id="the claim is missing"
        ),
        pytest.param(
            claiming("mine"),
            {},
            [make_claim("mine", exactly(), deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "mine" is being deleted',
            id="the claim is being deleted",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "t"}]},
            {},
            [],
            'pod "default/p": ResourceClaim not created yet',
            id="the claim of a template is not there yet",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "t"}]},
            {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "mine"}]},
            [make_claim("mine", exactly())],
            "ResourceClaim default/mine was not created for Pod default/p (Pod is not owner)",
            id="the claim was made for another pod",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "d"}]},
            {},
            [],
            'pod "default/p", spec.resourceClaim "d": none of the supported fields are set',
            id="the entry names no claim",
        ),
    ],
)
def test_a_pod_whose_claims_are_not_there_does_not_enter_the_queue(spec, status, claims, text):
    plugin = build(DynamicResources, cluster(*claims))
    pod = pending(name="p", spec=spec, status=status)
    for answer in (plugin.pre_enqueue(pod), pre_filter(plugin, pod)):
        assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert answer.message == text


def test_a_missing_class_rejects_the_pod_before_the_filters():
    alternatives = first_available("r", exactly("one"), exactly("two", "ghost"))
    plugin = build(DynamicResources, cluster(make_claim("mine", alternatives)))
    pod = pending(spec=claiming("mine"))
    assert plugin.pre_enqueue(pod) is None
    assert pre_filter(plugin, pod).message == "request r/two: device class ghost does not exist"


def test_a_reserved_allocation_counts_until_it_is_given_back():
    cache = cluster(gpus("a", 1), make_claim("mine", exactly()), make_claim("other", exactly()))
    plugin, state = build(DynamicResources, cache), CycleState()
    mine, other = pending(name="p", spec=claiming("mine")), pending(name="q", spec=claiming("other"))
    assert plugin.pre_filter(state, mine) is None
    assert plugin.reserve(state, mine, "a") is None
    assert verdicts(plugin, other) == {"a": TOO_FEW, "b": TOO_FEW}
    answer = pre_filter(plugin, pending(name="r", spec=claiming("mine")))
    assert answer.message == "resource claim default/mine is in the process of being allocated"
    plugin.unreserve(state, mine, "a")
    assert verdicts(plugin, other) == {"a": "", "b": TOO_FEW}


def test_the_preferred_alternative_scores_higher():
    cache = cluster(gpus("a", attributes={"model": "l4"}), gpus("b", attributes={"model": "a100"}))
    fast = exactly("fast", selectors=[selector(A100)])
    add(cache, make_claim("mine", first_available("r", fast, exactly("any"))))
    plugin, pod, state = build(DynamicResources, cache), pending(spec=claiming("mine")), CycleState()
    plugin.pre_filter(state, pod)
    assert plugin.filter_all(state, pod, cache.table).ok.all()
    assert [plugin.score(state, pod, cache.present(name)) for name in ("a", "b")] == [7, 8]


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param("example.com/gpu", id="the resource that the class names"),
        pytest.param("deviceclass.resource.kubernetes.io/gpus", id="the implicit resource of each class"),
    ],
)
def test_a_class_stands_for_an_extended_resource(resource):
    cache = cluster(gpus("a"), gpus("b", 1))
    add(cache, make_class("gpus", extendedResourceName="example.com/gpu"))
    plugin = build(DynamicResources, cache)
    pod = pending(requests={resource: "2"})
    assert verdicts(plugin, pod) == {"a": "", "b": TOO_FEW}
    cache.remove_object("DeviceClass", "gpus")
    assert pre_filter(plugin, pod) == SKIP


def test_of_several_classes_for_one_extended_resource_the_newest_stands_for_it():
    cache, pod = cluster(gpus("a"), gpus("b", 1)), pending(requests={"example.com/gpu": "1"})
    plugin = build(DynamicResources, cache)

    def stands() -> str:
        """The class of the request for the resource."""
        state = CycleState()
        assert plugin.pre_filter(state, pod) is None
        plan = plugin.plan(state, "a")
        assert plan is not None
        assert plan.extended is not None
        return plan.extended["requests"][0]["exactly"]["deviceClassName"]

    for day, name in ((2, "y"), (1, "a"), (2, "x")):
        created = make_class(name, extendedResourceName="example.com/gpu")
        add(cache, {**created, "metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}})
    assert stands() == "x", "of equally new ones the one with the lowest name"
    cache.remove_object("DeviceClass", "x")
    assert stands() == "y"
    cache.remove_object("DeviceClass", "y")
    assert stands() == "a"


def test_a_node_with_a_device_plugin_needs_no_devices():
    cache = make_cache([make_node("a"), make_node("b", allocatable={"example.com/gpu": "4"})])
    add(cache, make_class("gpus", extendedResourceName="example.com/gpu"))
    assert verdicts(build(DynamicResources, cache), pending(requests={"example.com/gpu": "1"})) == {
        "a": TOO_FEW,
        "b": "",
    }


def test_a_taint_rule_keeps_devices_from_being_allocated():
    cache = cluster(gpus("a", 1), gpus("b", 1), make_claim("mine", exactly()))
    tolerant = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    add(cache, make_claim("tolerant", tolerant))
    plugin, pod = build(DynamicResources, cache), pending(spec=claiming("mine"))
    assert verdicts(plugin, pod) == {"a": "", "b": ""}
    taint = {"key": "broken", "effect": "NoSchedule"}
    add(cache, {"metadata": {"name": "rule"}, "spec": {"deviceSelector": {"pool": "a"}, "taint": taint}})
    assert verdicts(plugin, pod) == {"a": TOO_FEW, "b": ""}
    assert verdicts(plugin, pending(spec=claiming("tolerant"))) == {"a": "", "b": ""}
    cache.remove_object("DeviceTaintRule", "rule")
    assert verdicts(plugin, pod) == {"a": "", "b": ""}


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        pytest.param({}, False, id="a rule without a selector matches nothing"),
        pytest.param({"deviceSelector": None}, False, id="so does one whose selector is null"),
        pytest.param({"deviceSelector": {}}, True, id="an empty selector matches everything"),
    ],
)
def test_a_taint_rule_matches_only_with_a_selector(selector, tainted):
    cache = cluster(gpus("a", 1), make_claim("mine", exactly()))
    taint = {"key": "broken", "effect": "NoSchedule"}
    add(cache, {"metadata": {"name": "rule"}, "spec": {**selector, "taint": taint}})
    assert verdicts(build(DynamicResources, cache), pending(spec=claiming("mine")))["a"] == (TOO_FEW if tainted else "")


def test_a_claim_that_is_of_no_use_is_deallocated():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="gone", reserved_for=["default/p"]))
    plugin, pod, state = build(DynamicResources, cluster(claim)), pending(name="p", spec=claiming("mine")), CycleState()
    assert plugin.pre_filter(state, pod) is None
    assert not plugin.filter_all(state, pod, plugin.handle.cache.table).ok.any()
    assert plugin.post_filter(state, pod, None) == (None, unschedulable("deallocation of ResourceClaim completed"))


def test_a_request_of_0_does_not_need_devices():
    cache = cluster()
    add(cache, make_class("gpus", extendedResourceName="example.com/gpu"))
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
