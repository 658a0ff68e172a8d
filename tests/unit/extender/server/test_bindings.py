"""Binding pods where kube-scheduler says so: what the cache counts meanwhile, and what becomes of failures."""

import asyncio

import orjson
import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import SPEC_CACHE, parse_pod
from podwright.engine.outcomes.binding.read_back import CONFIRM_SECONDS
from podwright.extender.server import bindings as module
from podwright.extender.wire import BindingArgs
from podwright.kube.client.errors import ApiError
from support.engine.kit import on_node, ours, settle
from support.extender.kit import ExtenderRig
from support.state.allocations import bytes_left_by


@pytest.fixture
def rig():
    rig = ExtenderRig("a", "b")
    rig.raw = ours("p", requests={"cpu": "1"})
    rig.rig.cluster.objects[("Pod", "p")] = rig.raw
    return rig


def asked(node="a", uid="default/p", name="p", namespace="default"):
    return BindingArgs(pod_name=name, pod_namespace=namespace, pod_uid=uid, node=node)


def remember(rig, raw):
    rig.bindings.remember(parse_pod(raw), orjson.dumps(raw).decode())


def used(rig, node):
    return rig.cache.present(node).requested["cpu"]


async def test_a_pod_counts_while_it_is_bound_and_until_the_watch_shows_it(rig):
    posted = asyncio.get_running_loop().create_future()
    rig.rig.cluster.outcomes.append(posted)
    binding = asyncio.create_task(rig.bindings.bind(asked(), ""))
    await settle()
    assert (used(rig, "a"), rig.bindings.assumed) == (1000, 1)
    posted.set_result(None)
    assert await binding == ""
    assert (rig.rig.cluster.bound, used(rig, "a")) == ([("p", "a")], 1000)
    rig.rig.engine.assigned.put(on_node(rig.raw, "a"))
    await rig.bindings.check()
    assert (used(rig, "a"), rig.bindings.assumed) == (1000, 0)


async def test_a_pod_that_was_filtered_needs_no_request(rig):
    rig.rig.cluster.objects.clear()
    async with rig.serving() as caller:
        await caller.post("/filter", {"Pod": rig.raw, "NodeNames": ["a"]})
    assert await rig.bindings.bind(asked(), "") == ""


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(asked(uid="other"), "pod default/p has the uid default/p, not other", id="another uid"),
        pytest.param(asked(name="q"), "pod default/q does not exist", id="no pod"),
        pytest.param(asked(node=""), "PodName, PodNamespace, PodUID and Node are required", id="no node"),
        pytest.param(
            asked(name="../../namespaces/x/pods/p"), "PodName does not have the form of a name", id="a path as name"
        ),
        pytest.param(asked(node="a/b"), "Node does not have the form of a name", id="a path as node"),
        pytest.param(asked(namespace=".."), "PodNamespace does not have the form of a name", id="a path as namespace"),
        pytest.param(asked(uid=""), "PodName, PodNamespace, PodUID and Node are required", id="no uid"),
    ],
)
async def test_only_the_very_pod_is_bound(rig, args, problem):
    assert await rig.bindings.bind(args, "") == problem
    assert rig.rig.cluster.bound == []
    assert used(rig, "a") == 0


async def test_a_refused_binding_frees_the_room_at_once(rig):
    rig.rig.cluster.outcomes.append(ApiError(404, "NotFound", 'pods "p" not found'))
    remember(rig, rig.raw)
    rig.rig.cluster.objects.clear()
    assert await rig.bindings.bind(asked(), "") == 'running Bind plugin "DefaultBinder": pods "p" not found'
    assert (used(rig, "a"), rig.bindings.assumed) == (0, 0)


async def test_an_unknown_outcome_is_read_back_until_the_api_server_answers(rig):
    remember(rig, rig.raw)
    rig.rig.cluster.outcomes.append(ClusterError("no answer"))
    rig.rig.cluster.unreachable = 2
    assert await rig.bindings.bind(asked(), "") == 'running Bind plugin "DefaultBinder": no answer'
    assert used(rig, "a") == 1000
    await rig.bindings.check()
    assert (used(rig, "a"), rig.bindings.assumed) == (1000, 1)
    rig.rig.cluster.objects[("Pod", "p")] = on_node(rig.raw, "b")
    await rig.bindings.check()
    assert (used(rig, "a"), used(rig, "b"), rig.bindings.assumed) == (0, 1000, 0)


async def test_a_failure_of_a_binding_that_went_through_is_a_success(rig):
    remember(rig, rig.raw)
    rig.rig.cluster.outcomes.append(ApiError(409, "Conflict", "it is assigned already"))
    rig.rig.cluster.objects[("Pod", "p")] = on_node(rig.raw, "a")
    assert await rig.bindings.bind(asked(), "") == ""
    assert used(rig, "a") == 1000


@pytest.mark.parametrize("gone", [True, False])
async def test_a_binding_that_the_watch_does_not_show_is_read_back(rig, gone):
    assert await rig.bindings.bind(asked(), "") == ""
    if gone:
        rig.rig.cluster.objects.clear()
    else:
        rig.rig.cluster.objects[("Pod", "p")] = on_node(rig.raw, "a")
    rig.rig.now += CONFIRM_SECONDS - 1
    await rig.bindings.check()
    assert rig.bindings.assumed == 1
    rig.rig.now += 1
    await rig.bindings.check()
    assert (used(rig, "a"), rig.bindings.assumed) == (0 if gone else 1000, 0)


async def test_a_pod_that_is_on_a_node_is_not_bound_again(rig):
    rig.rig.engine.assigned.put(on_node(rig.raw, "b"))
    assert await rig.bindings.bind(asked("b"), "") == ""
    assert await rig.bindings.bind(asked("a"), "") == "pod default/p is on node b already"
    assert rig.rig.cluster.bound == []


async def test_a_second_request_waits_for_nothing(rig):
    posted = asyncio.get_running_loop().create_future()
    rig.rig.cluster.outcomes.append(posted)
    first = asyncio.create_task(rig.bindings.bind(asked(), ""))
    await settle()
    assert await rig.bindings.bind(asked("b"), "") == "pod default/p is being bound"
    posted.set_result(None)
    assert await first == ""


async def test_a_pod_whose_first_binding_has_an_unknown_outcome_moves_to_the_next_node(rig):
    remember(rig, rig.raw)
    rig.rig.cluster.outcomes.append(ClusterError("no answer"))
    rig.rig.cluster.unreachable = 1
    await rig.bindings.bind(asked("a"), "")
    assert await rig.bindings.bind(asked("b"), "") == ""
    assert (used(rig, "a"), used(rig, "b")) == (0, 1000)


@pytest.mark.parametrize("character", ["x", "\N{LATIN SMALL LETTER U WITH DIAERESIS}", "\N{GRINNING FACE}"])
def test_the_memory_of_the_remembered_pods_is_bounded(rig, monkeypatch, character):
    monkeypatch.setattr(module, "REMEMBERED_BYTES", bound := 1 << 20)

    def hostile(number):
        requests = {f"r{each}": "1" for each in range(2_000)}
        return ours(f"p{number}", requests=requests, spec={"filler": character * 10_000})

    def remember_many():
        for number in range(30):
            remember(rig, hostile(number))
        for function in (SPEC_CACHE.clear, compact_all, compact_all):
            function()

    assert bytes_left_by(remember_many) < 1.1 * bound
    assert 0.8 * bound < rig.bindings.remembered_bytes <= bound


def test_a_pod_that_is_asked_about_again_counts_once(rig):
    remember(rig, ours("p"))
    once = rig.bindings.remembered_bytes
    remember(rig, ours("p"))
    assert rig.bindings.remembered_bytes == once


async def test_a_pod_that_is_bound_is_no_longer_remembered(rig):
    remember(rig, rig.raw)
    await rig.bindings.bind(asked(), "")
    assert rig.bindings.remembered_bytes == 0
