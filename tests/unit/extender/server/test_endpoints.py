"""The extender's HTTP: paths, answers, and what becomes of requests that are wrong, long or slow."""

import asyncio
import gc
import itertools
import tracemalloc

import numpy as np
import orjson
import pytest

from podwright.extender.server import bodies
from podwright.extender.server import endpoints as module
from podwright.extender.server.bodies import SMALL
from podwright.kube.serve.connections.connection import ClientLimits
from support.engine.kit import on_node, ours
from support.engine.long_work import Clock, FakeChildren
from support.extender.kit import ExtenderRig
from support.objects.builders import make_node, make_pod, make_taint
from support.serve.kit import hang_up
from support.waiting import patience


@pytest.fixture
def rig():
    return ExtenderRig("a", "b")


def args(names=("a", "b"), **options):
    return {"Pod": ours("asks", **options), "Nodes": None, "NodeNames": list(names)}


def sent(*nodes, **options):
    return {"Pod": ours("asks", **options), "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def counted(rig, verb, result):
    return rig.metrics.counter(module.EXTENDER_REQUESTS).of(verb, result)[0]


@pytest.mark.parametrize("path", ["/filter", "/predicates", "/policies/built-in-default/filter"])
async def test_filter_answers_names_with_names(rig, path):
    async with rig.serving() as caller:
        assert await caller.post(path, args(["a", "x"])) == (
            200,
            {
                "Nodes": None,
                "NodeNames": ["a"],
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {"x": "node(s) not known to the extender"},
                "Error": "",
            },
        )
    assert counted(rig, "filter", "success") == 1


@pytest.mark.parametrize("path", ["/prioritize", "/priority", "/priorities", "/policies/built-in-default/priority"])
async def test_prioritize_scores_each_node(rig, path):
    async with rig.serving() as caller:
        expected = [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 10}, {"Host": "x", "Score": 0}]
        assert await caller.post(path, args(["a", "b", "x"])) == (200, expected)


@pytest.mark.parametrize("short", [0, 1, 2, 3])
def test_zeros_and_equal_scores_are_left_out_of_lists_that_are_not_short(monkeypatch, short):
    monkeypatch.setattr(module, "SHORT", short)
    names = ["a", "bb", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"]
    for scores in itertools.product((0, 5, 10), repeat=3):
        written = orjson.loads(module.encode_scores(names, np.array(scores, np.int64)))
        expected = [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
        differ = len(set(scores)) > 1
        assert written == [each for each in expected if short == 3 or (differ and each["Score"])]


async def test_prioritize_after_filter_reads_neither_the_pod_nor_the_names_again(rig, monkeypatch):
    rig.rig.node("tainted", taints=[make_taint("gpu")])
    lookups, parsed = [], []
    table, parse = rig.cache.table, module.parse_pod
    slots_of = table.slots_of
    monkeypatch.setattr(table, "slots_of", lambda names: lookups.append(names) or slots_of(names))
    monkeypatch.setattr(module, "parse_pod", lambda raw: parsed.append(raw) or parse(raw))
    async with rig.serving() as caller:
        _, kept = await caller.post("/filter", args(["b", "tainted", "a"]))
        assert kept["NodeNames"] == ["b", "a"]
        expected = [{"Host": "b", "Score": 10}, {"Host": "a", "Score": 10}]
        assert await caller.post("/prioritize", args(kept["NodeNames"])) == (200, expected)
        assert (len(lookups), len(parsed)) == (2, 1)  # the names differ: one node was tainted
        for _ in range(2):
            await caller.post("/filter", args(["b", "tainted", "a"]))
            await caller.post("/prioritize", args(kept["NodeNames"]))
        assert len(lookups) == 2
        rig.rig.node("c")
        assert (await caller.post("/filter", args(["c", "a"])))[1]["NodeNames"] == ["c", "a"]
        assert (await caller.post("/filter", args(["b", "tainted", "a"])))[1]["NodeNames"] == ["b", "a"]
        assert len(lookups) == 4


async def test_a_known_pod_that_changed_is_parsed_again(rig):
    async with rig.serving() as caller:
        assert (await caller.post("/filter", args(requests={"cpu": "1"})))[1]["NodeNames"] == ["a", "b"]
        assert (await caller.post("/filter", args(requests={"cpu": "1k"})))[1]["NodeNames"] == []


async def test_keys_are_read_in_any_case(rig):
    body = {"pod": ours("asks"), "nodenames": ["a"]}
    async with rig.serving() as caller:
        assert (await caller.post("/filter", body))[1]["NodeNames"] == ["a"]


@pytest.mark.parametrize("key", ["NodeNameToMetaVictims", "NodeNameToVictims"])
@pytest.mark.parametrize("path", ["/preempt", "/preemption"])
async def test_preempt_takes_victims_in_both_forms(rig, key, path):
    rig.rig.node("full", allocatable={"cpu": "1"})
    victim = make_pod("low", uid="low", requests={"cpu": "1"}, priority=0)
    rig.rig.engine.assigned.put(on_node(victim, "full"))
    pods = [{"UID": "low"}] if key == "NodeNameToMetaVictims" else [victim]
    body = {
        "Pod": ours("asks", requests={"cpu": "1"}, priority=5),
        key: {"full": {"Pods": pods, "NumPDBViolations": 7}},
    }
    async with rig.serving() as caller:
        kept = {"full": {"Pods": [{"UID": "low"}], "NumPDBViolations": 0}}
        assert await caller.post(path, body) == (200, {"NodeNameToMetaVictims": kept})


async def test_bind_answers_what_failed(rig):
    async with rig.serving() as caller:
        wrong = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
        assert await caller.post("/bind", wrong) == (200, {"Error": "pod default/p does not exist"})
        await caller.post("/filter", args())
        right = {"PodName": "asks", "PodNamespace": "default", "PodUID": "default/asks", "Node": "a"}
        assert await caller.post("/bind", right) == (200, {"Error": ""})
    assert rig.rig.cluster.bound == [("asks", "a")]
    assert (counted(rig, "bind", "error"), counted(rig, "bind", "success")) == (1, 1)


# Nodes that are sent along


async def test_the_nodes_that_were_sent_count_and_come_back_as_they_came(rig):
    tainted, new = make_node("b", taints=[make_taint("gpu")]), {**make_node("new"), "kind": "Node", "extra": [1]}
    async with rig.serving() as caller:
        status, answer = await caller.post("/filter", sent(make_node("a"), tainted, new))
        assert (status, answer["NodeNames"]) == (200, None)
        assert answer["Nodes"]["items"] == [make_node("a"), new]
        assert answer["FailedAndUnresolvableNodes"] == {"b": "node(s) had untolerated taint(s)"}
        _, scores = await caller.post("/prioritize", sent(new, make_node("a")))
        assert scores == [{"Host": "new", "Score": 10}, {"Host": "a", "Score": 10}]
    assert rig.cache.present("new") is None
    assert not rig.cache.present("b").present.taints


async def test_nodes_that_were_sent_hold_the_pods_that_the_cache_knows(rig):
    rig.rig.engine.assigned.put(on_node(make_pod("there", requests={"cpu": "8"}), "a"))
    async with rig.serving() as caller:
        _, answer = await caller.post("/filter", sent(make_node("a"), requests={"cpu": "1"}))
        assert answer["FailedNodes"] == {"a": "Insufficient cpu"}


async def test_a_large_body_gets_the_answer_of_a_small_one(rig):
    nodes = [make_node(f"n{number}", taints=[make_taint("gpu")] * (number % 2)) for number in range(40)]
    async with rig.serving() as caller:
        _, small = await caller.post("/filter", sent(*nodes))
        nodes[0]["metadata"]["annotations"]["filler"] = "ü" * SMALL
        status, large = await caller.post("/filter", sent(*nodes))
        assert status == 200
        assert len(large["Nodes"]["items"]) == 20
        assert large["Nodes"]["items"][1:] == small["Nodes"]["items"][1:]
        assert large["Nodes"]["items"][0] == nodes[0]
        assert large["FailedAndUnresolvableNodes"] == small["FailedAndUnresolvableNodes"]
    assert rig.endpoints.body_bytes == 0


# What is wrong with a request


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"{", "unexpected EOF", id="not JSON"),
        pytest.param(b"", "EOF", id="no body"),
        pytest.param(b"[]", "cannot unmarshal array into Go value of type v1.ExtenderArgs", id="another type"),
        pytest.param(b"{}", "Pod: is required", id="no pod"),
        pytest.param(b'{"Pod": {"metadata": {}}}', "a name and a namespace are required", id="a pod without a name"),
        pytest.param(b'{"Pod": {"metadata": {"name": "../p"}}}', "the form of a name", id="a path as name"),
        pytest.param(b'{"Pod": {"metadata": {"name": "p", "namespace": "a/b"}}}', "the form of a name", id="a path as namespace"),
        pytest.param(b'{"Pod": {}, "NodeNames": [1]}', "of type string", id="names that are no strings"),
        pytest.param(b'{"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [{}]}}', "a name is required", id="a node without a name"),
        pytest.param(b'{"Pod": {"metadata": {"name": "p"}, "spec": {"priority": "x"}}}', "32-bit", id="a field of the pod"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("large", [False, True])
async def test_a_body_that_cannot_be_understood_is_an_error_in_the_answer(rig, body, error, large):
    body = (b" " * SMALL + b" " if large else b"") + body
    async with rig.serving() as caller:
        status, answer = await caller.post("/filter", body)
        assert (status, answer["NodeNames"]) == (200, None)
        assert answer["Error"].startswith("the extender cannot use the body of the request: ")
        assert error in answer["Error"]
        status, answer = await caller.post("/prioritize", body)
        assert status == 400
        assert error in answer
    assert (counted(rig, "filter", "error"), counted(rig, "prioritize", "error")) == (1, 1)


async def test_an_unknown_policy_is_an_error_of_each_verb(rig):
    async with rig.serving() as caller:
        assert (await caller.post("/policies/none/filter", args()))[1][
            "Error"
        ] == 'there is no SchedulerPolicy "none", which the URL of the extender names'
        assert await caller.post("/policies/none/prioritize", args()) == (
            404,
            'there is no SchedulerPolicy "none", which the URL of the extender names\n',
        )
        assert (await caller.post("/policies/none/preempt", args()))[0] == 404
        bind = {"PodName": "asks", "PodNamespace": "default", "PodUID": "default/asks", "Node": "a"}
        await caller.post("/filter", args())
        assert (await caller.post("/policies/none/bind", bind))[1] == {
            "Error": 'there is no SchedulerPolicy "none", which the URL of the extender names'
        }
    assert rig.rig.cluster.bound == []
    assert rig.cache.placement("default/asks") is None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post_is_allowed(rig, method):
    async with rig.serving() as caller:
        assert (await caller.request(method, "/filter"))[0] == 405
        assert (await caller.request(method, "/policies/p/bind"))[0] == 405


async def test_other_paths_are_not_found(rig):
    async with rig.serving() as caller:
        assert (await caller.post("/other", {}))[0] == 404


async def test_only_json_is_read(rig):
    async with rig.serving() as caller:
        assert (await caller.post("/filter", args(), **{"Content-Type": "text/plain"}))[0] == 415
        charset = {"Content-Type": "application/json; charset=utf-8"}
        assert (await caller.post("/filter", args(), **charset))[0] == 200


async def test_a_body_without_a_length_or_with_too_great_a_one_is_not_read():
    rig = ExtenderRig("a", body_bytes=2 * SMALL)

    async def chunks():
        yield orjson.dumps(args())

    async with rig.serving() as caller:
        assert (await caller.request("POST", "/filter", data=chunks(), headers=module_json()))[0] == 411
        assert (await caller.post("/filter", b" " * (2 * SMALL + 1)))[0] == 413
        assert (await caller.post("/filter", args(["a"])))[0] == 200


async def connect(caller):
    return await asyncio.open_connection("127.0.0.1", caller.port.number)


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def module_json():
    return {"Content-Type": "application/json"}


async def test_nothing_is_answered_before_the_caches_are_complete(rig):
    rig.missing.append("nodes")
    async with rig.serving() as caller:
        status, answer = await caller.post("/filter", args())
        assert (status, answer["Error"]) == (200, "the extender is starting: nodes not complete")
        assert (await caller.post("/prioritize", args()))[0] == 503


async def test_large_bodies_wait_for_room_and_small_ones_do_not(monkeypatch):
    rig = ExtenderRig("a", body_bytes=2 * SMALL)
    most = 0
    original = module.read_fast

    async def read(content, body, length):
        nonlocal most
        most = max(most, rig.endpoints.body_bytes)
        return await original(content, body, length)

    monkeypatch.setattr(module, "read_fast", read)
    body = b" " * SMALL + orjson.dumps(args(["a"]))
    async with rig.serving() as caller:
        answers = await asyncio.gather(
            *(caller.post("/filter", body) for _ in range(16)), caller.post("/filter", args())
        )
    assert [status for status, _ in answers] == [200] * 17
    assert SMALL < most <= 2 * SMALL
    assert rig.endpoints.body_bytes == 0


async def test_a_large_body_that_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    rig = ExtenderRig("a", body_bytes=2 * SMALL)
    async with rig.serving() as caller:
        _, writer = await connect(caller)
        head = (
            f"POST /filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {2 * SMALL}\r\n\r\n"
        )
        writer.write(head.encode() + b" " * SMALL)
        await until(lambda: rig.endpoints.body_bytes)
        assert (await caller.post("/filter", b" " * (SMALL + 1)))[0] == 503
        await hang_up(writer)
        await until(lambda: not rig.endpoints.body_bytes)


async def test_a_client_that_announces_a_large_body_and_sends_nothing_takes_no_room():
    rig = ExtenderRig("a", body_bytes=2 * SMALL)
    head = f"POST /filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {2 * SMALL}\r\n\r\n"
    async with rig.serving() as caller:
        _, writer = await connect(caller)
        writer.write(head.encode())
        await until(lambda: caller.port.connection_count == 1)
        assert (await caller.post("/filter", b" " * SMALL + orjson.dumps(args(["a"]))))[0] == 200
        assert (caller.port.connection_count, rig.endpoints.body_bytes) == (2, 0)
        await hang_up(writer)


async def test_a_client_that_pauses_with_room_loses_it(monkeypatch):
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(bodies, "LEAST_RATE", 1 << 40)
    rig = ExtenderRig("a", body_bytes=2 * SMALL)
    head = f"POST /filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {2 * SMALL}\r\n\r\n"
    async with rig.serving() as caller:
        reader, writer = await connect(caller)
        writer.write(head.encode() + b" " * SMALL)
        async with patience():
            assert b" 408 " in await reader.readline()
        await until(lambda: not rig.endpoints.body_bytes)
        await hang_up(writer)


@pytest.mark.parametrize(("path", "most"), [("/bind", 64 << 10), ("/preempt", 16 << 20)])
async def test_bodies_of_some_verbs_are_shorter(path, most):
    rig = ExtenderRig("a", body_bytes=1 << 25)
    async with rig.serving() as caller:
        status, text = await caller.post(path, b" " * (most + 1))
        assert (status, text) == (413, f"the body is longer than {most} bytes\n")
        assert (await caller.post(path, b" " * most))[0] != 413


async def test_a_request_has_a_bound_of_nodes_that_grows_with_the_cluster(rig):
    many = [f"x{number}" for number in range(1_008)]
    async with rig.serving() as caller:
        assert len((await caller.post("/filter", args(many)))[1]["FailedAndUnresolvableNodes"]) == 1_008
        _, answer = await caller.post("/filter", args([*many, "y"]))
        assert answer["Error"] == "there are more than 1008 names of nodes"
        assert (await caller.post("/prioritize", args([*many, "y"])))[0] == 413
        unknown = [{"metadata": {"name": name}} for name in [*many, "y"]]
        size = rig.cache.table.size
        assert (await caller.post("/filter", sent(*unknown)))[1]["Error"] == "there are more than 1008 nodes"
        assert rig.cache.table.size == size
        rig.rig.node("c")
        assert (await caller.post("/filter", args([*many, "y"])))[1]["Error"] == ""


async def test_a_long_answer_counts_until_it_has_been_sent(rig, monkeypatch):
    name = "x" * 2000
    counted_bytes = []
    original = module.send_in_pieces

    async def send(request, answer):
        counted_bytes.append((rig.endpoints.body_bytes, len(answer)))
        return await original(request, answer)

    monkeypatch.setattr(module, "send_in_pieces", send)
    async with rig.serving() as caller:
        body = args([f"{name}{number}" for number in range(520)])
        assert len(orjson.dumps(body)) < SMALL + 100_000
        assert (await caller.post("/filter", body))[0] == 200
    ((held, sent_bytes),) = counted_bytes
    assert held >= sent_bytes > SMALL
    assert rig.endpoints.body_bytes == 0


async def test_a_client_that_does_not_send_its_body_is_not_waited_for(rig, monkeypatch):
    monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    async with rig.serving() as caller:
        reader, writer = await connect(caller)
        writer.write(
            b"POST /filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        async with patience():
            assert b" 408 " in await reader.readline()
        await hang_up(writer)


async def test_a_client_that_does_not_send_its_head_is_dropped(rig):
    limits = ClientLimits(connections=4, head_seconds=0.05, idle_seconds=60, request_bytes=1 << 30, mean_bytes=1 << 30)
    async with rig.serving(limits=limits) as caller:
        reader, writer = await connect(caller)
        writer.write(b"POST /filter HT")
        async with patience():
            assert await reader.read() == b""
        await hang_up(writer)
        assert rig.dropped == ["head"]


async def test_a_connection_serves_many_requests(rig):
    async with rig.serving() as caller:
        for _ in range(3):
            assert (await caller.post("/filter", args()))[0] == 200
            assert caller.port.connection_count == 1


async def test_a_failing_plugin_is_named(rig, monkeypatch):
    policy = rig.policies.default.framework
    plugin = next(each for each in policy.filter_plugins if each.name == "NodeName")

    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(plugin, "filter_all", fail)
    async with rig.serving() as caller:
        _, answer = await caller.post("/filter", args())
        assert "NodeName" in answer["Error"]
        assert "broken" in answer["Error"]


def slow(rig, monkeypatch):
    """A filter that takes longer than a slice in the loop."""
    monkeypatch.setattr(rig.rig, "clock", Clock())
    plugin = next(each for each in rig.policies.default.framework.filter_plugins if each.name == "NodeName")
    filter_all = plugin.filter_all

    def filter_slowly(*arguments):
        for _ in range(10):
            rig.cache.deadline.point()
        return filter_all(*arguments)

    monkeypatch.setattr(plugin, "filter_all", filter_slowly)


async def test_a_decision_that_takes_longer_than_a_slice_comes_from_a_child(monkeypatch):
    children = FakeChildren()
    rig = ExtenderRig("a", "b", children=children)
    slow(rig, monkeypatch)
    async with rig.serving() as caller:
        status, answer = await caller.post("/filter", args())
    assert (status, answer["NodeNames"], answer["Error"], children.started) == (200, ["a", "b"], "", 1)


async def test_a_child_that_ends_without_a_decision_is_an_error_of_the_pod(monkeypatch):
    children = FakeChildren()
    children.end = "it took more than 20 s"
    rig = ExtenderRig("a", "b", children=children)
    slow(rig, monkeypatch)
    async with rig.serving() as caller:
        status, answer = await caller.post("/filter", args())
    assert (status, answer["Error"]) == (200, "the process that decides ended: it took more than 20 s")


@pytest.mark.parametrize("long", [False, True])
async def test_sent_nodes_are_in_place_for_one_decision_only(monkeypatch, long):
    rig = ExtenderRig("a", "b", children=FakeChildren())
    if long:
        slow(rig, monkeypatch)
    body = sent(make_node("a", taints=[{"key": "x", "effect": "NoSchedule"}]), make_node("b"))
    async with rig.serving() as caller:
        _, answer = await caller.post("/filter", body)
        _, again = await caller.post("/filter", args())
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["b"]
    assert again["NodeNames"] == ["a", "b"]


async def test_large_requests_leave_nothing_in_memory_before_a_collection(rig):
    body = orjson.dumps(sent(*(make_node(name, annotations={"filler": "x" * SMALL}) for name in ("a", "b"))))
    head = f"POST /filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    async def ask(reader, writer):
        writer.write(head.encode() + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = int(answered.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        assert length > 2 * SMALL
        while length > 0:
            length -= len(await reader.read(length))

    gc.collect()  # takes seconds after thousands of tests, which a connection without a request would not outlast
    gc.disable()
    try:
        async with rig.serving() as caller:
            reader, writer = await connect(caller)
            await ask(reader, writer)
            tracemalloc.start()
            for _ in range(4):
                await ask(reader, writer)
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            await hang_up(writer)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 2 * SMALL
