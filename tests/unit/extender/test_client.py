"""The client of extenders, against a real HTTP server."""

import asyncio
import threading

import pytest

from podwright.api.configuration.extenders import DefinedExtender
from podwright.api.configuration.schema import Extender, ManagedResource
from podwright.core.objects.pod import parse_pod
from podwright.engine.extenders import PolicyExtenders
from podwright.engine.ports import MAX_EXTENDER_TEXT, ExtenderError, NodeVictims
from podwright.engine.raw_objects import MissingRawError, RawObjects, raw_objects_for
from podwright.extender import client as module
from podwright.extender import wire
from podwright.extender.client import DECODED_HERE, MAX_ANSWER, HTTPExtender
from support.engine.kit import Rig
from support.extender.server import Reply, keep, node_names, serving
from support.objects.builders import make_node, make_pod

VERBS = {"filter_verb": "filter", "prioritize_verb": "prioritize", "preempt_verb": "preempt", "bind_verb": "bind"}
POD = parse_pod(make_pod("web", metadata={"managedFields": [{"manager": "x"}]}), keep_raw=True)


def client(url, *, connections=4, context=None, **settings):
    defined = DefinedExtender(name="e", settings=Extender(url_prefix=url, **{**VERBS, "weight": 1, **settings}))
    return HTTPExtender(defined, context=context, proxy=None, connections=connections)


def nodes(*names):
    """These nodes as an extender without a cache gets them."""
    raw = RawObjects(keep_nodes=True, keep_pods=True)
    for name in names:
        raw.put_node({**make_node(name), "metadata": {**make_node(name)["metadata"], "managedFields": []}})
    return raw


async def ask(answer, verb="filter", *args, ssl_context=None, context=None, url="{}", **settings):
    """Returns the client's result, and the server's requests."""
    with serving(answer, ssl_context) as server:
        extender = client(url.format(server.url), context=context, **settings)
        try:
            found = await getattr(extender, verb)(*(args or (POD, ["a", "b"], nodes("a", "b"))))
        finally:
            await extender.close()
        return found, server


async def error_of(answer, verb="filter", *args, **settings):
    """The words of the ExtenderError."""
    with pytest.raises(ExtenderError) as caught:
        await ask(answer, verb, *args, **settings)
    return str(caught.value)


async def test_node_names_are_sent_to_an_extender_with_a_cache():
    found, server = await ask(lambda _, args: keep(args, ["b"], {"a": "no"}), node_cache_capable=True)
    assert (found.kept, found.failed, found.unresolvable) == (("b",), {"a": "no"}, {})
    ((verb, args),) = server.requests
    assert verb == "filter"
    assert args["NodeNames"] == ["a", "b"]
    assert args["Nodes"] is None
    assert args["Pod"]["metadata"]["name"] == "web"
    assert "managedFields" not in args["Pod"]["metadata"]


async def test_a_pod_whose_object_was_not_kept_is_not_sent():
    with serving(lambda _, args: keep(args, ["a"])) as server:
        extender = client(server.url)
        for verb, about in (("filter", ["a"]), ("prioritize", ["a"]), ("preempt", {})):
            with pytest.raises(MissingRawError):
                await getattr(extender, verb)(parse_pod(make_pod("web")), about, nodes("a"))
        await extender.close()
    assert server.requests == []


async def test_whole_nodes_are_sent_to_an_extender_without_a_cache():
    found, server = await ask(lambda _, args: keep(args, ["b"]))
    assert list(found.kept) == ["b"]
    ((_, args),) = server.requests
    assert args["NodeNames"] is None
    first = args["Nodes"]["items"][0]
    assert first["status"]["allocatable"]["cpu"] == "8"
    assert "managedFields" not in first["metadata"]


async def test_scores_are_scaled_weighted_and_not_bounded():
    scores = [{"Host": "a", "Score": 3}, {"Host": "b", "Score": -7}, {"Host": "a", "Score": 10**6}, {"Host": "c"}]
    found, _ = await ask(lambda *_: Reply(scores), "prioritize", weight=2, node_cache_capable=True)
    assert found == {"a": 20 * (10**6 + 3), "b": -140, "c": 0}


async def test_victims_are_sent_by_uid_to_an_extender_with_a_cache():
    answer = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}}
    victims = {"a": NodeVictims(["u1", "u2"], 1)}
    found, server = await ask(lambda *_: Reply(answer), "preempt", POD, victims, nodes(), node_cache_capable=True)
    assert found == {"a": NodeVictims(("u1",), 1)}
    ((_, args),) = server.requests
    assert args["NodeNameToMetaVictims"] == {"a": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}}
    assert args["NodeNameToVictims"] is None


async def test_whole_victims_are_sent_to_an_extender_without_a_cache():
    raw = nodes()
    raw.put_pod(make_pod("low", uid="u1", node="a"))
    _, server = await ask(lambda *_: Reply({}), "preempt", POD, {"a": NodeVictims(["u1"], 0)}, raw)
    ((_, args),) = server.requests
    assert args["NodeNameToVictims"]["a"]["Pods"][0]["metadata"]["name"] == "low"
    assert args["NodeNameToMetaVictims"] is None


async def test_a_binding_has_the_pods_uid():
    _, server = await ask(lambda *_: Reply({}), "bind", POD, "a")
    binding = {"PodName": "web", "PodNamespace": "default", "PodUID": "default/web", "Node": "a"}
    assert server.requests == [("bind", binding)]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply({"Error": "no"}), "no", id="an error"),
        pytest.param(Reply(b"garbage"), "invalid character 'g' looking for beginning of value", id="garbage"),
        pytest.param(Reply({}, status=500), "failed filter with extender at URL {}/filter, code 500", id="a status"),
        pytest.param(Reply(b"", status=204), "failed filter with extender at URL {}/filter, code 204", id="no content"),
        pytest.param(
            Reply({}, status=307, headers={"Location": "http://127.0.0.1:1/"}),
            "failed filter with extender at URL {}/filter, code 307",
            id="a redirect, which is not followed",
        ),
        pytest.param(Reply(drop=True), 'Post "{}/filter": EOF', id="a connection that ends"),
        pytest.param(
            Reply({"NodeNames": ["ghost"]}),
            'extender "{}" claims a filtered node "ghost" which is not found in the input node list',
            id="an unknown node",
        ),
        pytest.param(
            Reply({"Nodes": {"items": [{"metadata": {"name": "ghost"}}]}}),
            'extender "{}" claims a filtered node "ghost" which is not found in the input node list',
            id="an unknown whole node",
        ),
        pytest.param(
            Reply({"Nodes": {"items": [{"metadata": None}]}}),
            'extender "{}" claims a filtered node "" which is not found in the input node list',
            id="a node without a name",
        ),
    ],
)
async def test_errors_have_kube_schedulers_words(reply, words):
    with serving(lambda *_: reply) as server:
        extender = client(server.url, node_cache_capable=True)
        with pytest.raises(ExtenderError) as caught:
            await extender.filter(POD, ["a"], nodes())
        await extender.close()
        assert str(caught.value) == words.format(server.url)


async def test_a_server_that_does_not_answer_is_given_up():
    words = await error_of(lambda *_: Reply({}, delay=1.0), http_timeout="50ms", node_cache_capable=True)
    assert words.endswith(": context deadline exceeded (Client.Timeout exceeded while awaiting headers)")


async def test_nobody_listens():
    extender = client("http://127.0.0.1:1")
    with pytest.raises(ExtenderError, match=r"dial tcp 127\.0\.0\.1:1: connect: connection refused"):
        await extender.bind(POD, "a")
    await extender.close()


async def test_an_answer_that_ends_late_is_given_up():
    with serving(lambda *_: Reply(b"{", missing=1)) as server:
        extender = client(server.url, node_cache_capable=True, http_timeout="1s")
        with pytest.raises(ExtenderError) as caught:
            await extender.filter(POD, ["a"], nodes())
        await extender.close()
    assert str(caught.value) == "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


async def test_decoding_counts_towards_the_timeout(monkeypatch):
    given_up = threading.Event()

    def decode(_answer):
        given_up.wait(20)
        return wire.ExtenderFilterResult(node_names=["a"], failed_nodes={}, failed_and_unresolvable_nodes={})

    monkeypatch.setattr(wire, "decode_filter_result", decode)
    with serving(lambda *_: Reply(b" " * (DECODED_HERE + 1))) as server:
        extender = client(server.url, node_cache_capable=True, http_timeout="2s")
        try:
            with pytest.raises(ExtenderError, match=r"Client\.Timeout or context cancellation while reading body"):
                await extender.filter(POD, ["a"], nodes())
        finally:
            given_up.set()
            await extender.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"Error": "\u20ac" * 400_000}, id="its own words"),
        pytest.param({"NodeNames": ["x" * 3_000_000]}, id="the name of a node"),
    ],
)
async def test_the_words_of_an_extender_are_cut(answer):
    words = await error_of(lambda *_: Reply(answer), node_cache_capable=True)
    assert MAX_EXTENDER_TEXT - 4 <= len(words.encode()) <= MAX_EXTENDER_TEXT


async def test_the_error_of_a_binding_is_cut():
    words = await error_of(lambda *_: Reply({"Error": "x" * 3_000_000}), "bind", POD, "a")
    assert words == "x" * MAX_EXTENDER_TEXT


async def test_each_reason_is_cut():
    failed = {"a": "x" * 3_000_000, "b": "\u20ac" * 3_000, "c": "no"}
    found, _ = await ask(lambda *_: Reply({"FailedNodes": failed}), node_cache_capable=True)
    assert [len(text.encode()) for text in found.failed.values()] == [MAX_EXTENDER_TEXT, MAX_EXTENDER_TEXT - 2, 2]


@pytest.mark.parametrize("verdict", ["FailedNodes", "FailedAndUnresolvableNodes"])
@pytest.mark.parametrize(("count", "length"), [(60_000, 1), (2_000, 1_000)])
async def test_the_reasons_that_differ_are_bounded(verdict, count, length):
    failed = {f"n{number}": f"{number}".zfill(length) for number in range(count)}
    found, _ = await ask(lambda *_: Reply({verdict: failed}), node_cache_capable=True)
    given = found.failed if verdict == "FailedNodes" else found.unresolvable
    differing = set(given.values()) - {module.OTHER_REASONS}
    assert given.keys() == failed.keys()
    assert len(differing) == min(module.MAX_REASONS, module.MAX_REASONS_TEXT // length)
    assert sum(map(len, differing)) <= module.MAX_REASONS_TEXT
    assert given["n1"] == failed["n1"]


async def test_an_answer_without_end_is_not_read():
    words = await error_of(lambda *_: Reply(b" " * (MAX_ANSWER + 100_000)), node_cache_capable=True)
    assert words.endswith("is too long")


async def test_a_long_answer_is_decoded():
    failed = {f"node-{i}": "x" * 100 for i in range(2_000)}
    found, _ = await ask(lambda *_: Reply({"NodeNames": [], "FailedNodes": failed}), node_cache_capable=True)
    assert found.failed == failed


async def test_a_url_with_a_slash_at_its_end():
    _, server = await ask(lambda _, args: keep(args, []), url="{}/", node_cache_capable=True)
    assert server.requests[0][0] == "filter"


async def test_connections_are_used_again():
    with serving(lambda _, args: keep(args, node_names(args))) as server:
        extender = client(server.url, node_cache_capable=True)
        for _ in range(5):
            await extender.filter(POD, ["a"], nodes())
        await extender.close()
    assert server.connections == 1


async def test_a_question_is_repeated_if_the_server_had_closed_the_connection():
    replies = [Reply({"NodeNames": ["a"]}), Reply(drop=True), Reply({"NodeNames": ["a"]})]
    with serving(lambda *_: replies.pop(0)) as server:
        extender = client(server.url, node_cache_capable=True)
        for _ in range(2):
            assert (await extender.filter(POD, ["a"], nodes())).kept == ("a",)
        await extender.close()


async def test_a_question_on_a_new_connection_is_not_repeated():
    with serving(lambda *_: Reply(drop=True)) as server:
        extender = client(server.url, node_cache_capable=True)
        with pytest.raises(ExtenderError, match="EOF"):
            await extender.filter(POD, ["a"], nodes())
        await extender.close()
    assert len(server.requests) == 1


async def test_a_binding_is_not_repeated():
    with serving(lambda *_: Reply(drop=True)) as server:
        extender = client(server.url)
        with pytest.raises(ExtenderError, match="EOF"):
            await extender.bind(POD, "a")
        await extender.close()
    assert len(server.requests) == 1


async def test_no_more_requests_are_on_their_way_than_allowed():
    with serving(lambda _, args: Reply({"NodeNames": ["a"]}, delay=0.02)) as server:
        extender = client(server.url, connections=3, node_cache_capable=True)
        await asyncio.gather(*(extender.filter(POD, ["a"], nodes()) for _ in range(9)))
        await extender.close()
    assert server.most_at_once <= 3


async def test_a_compressed_answer_is_not_decompressed():
    words = await error_of(
        lambda *_: Reply(b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}), node_cache_capable=True
    )
    assert words == "invalid character '\\x1f' looking for beginning of value"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply({}, status=500), id="a status"),
        pytest.param(Reply(drop=True), id="no answer"),
        pytest.param(Reply({"NodeNames": ["ghost"]}), id="an unknown node"),
        pytest.param(Reply(b" " * (MAX_ANSWER + 100_000)), id="too long"),
    ],
)
@pytest.mark.parametrize(("user", "shown"), [("user:secret", "user:***"), ("secret", "***")])
async def test_passwords_are_not_shown(reply, user, shown):
    with serving(lambda *_: reply) as server:
        extender = client(server.url.replace("//", f"//{user}@"), node_cache_capable=True)
        with pytest.raises(ExtenderError) as caught:
            await extender.filter(POD, ["a"], nodes())
        await extender.close()
    assert f"//{shown}@127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:secret@", "http://user:secret@host:port", "http://user:sec/secret@host"])
async def test_the_password_of_a_url_that_cannot_be_used_is_not_shown(url):
    extender = client(url, node_cache_capable=True)
    with pytest.raises(ExtenderError) as caught:
        await extender.filter(POD, ["a"], nodes())
    await extender.close()
    assert "secret" not in str(caught.value)


# Which pods and objects


def test_an_extender_is_interested_in_pods_that_name_its_resources():
    managed = Extender(filter_verb="f", managed_resources=(ManagedResource("example.com/gpu"),))
    extender = HTTPExtender(DefinedExtender(name="e", settings=managed), context=None, proxy=None, connections=1)

    class Policy:
        extenders = ("e",)

    chosen = PolicyExtenders(Rig(extenders={"e": extender}).ports)
    container = {"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}
    for spec, interested in (
        ({"containers": [container]}, True),
        ({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}, True),
        ({"containers": [{"name": "c"}], "initContainers": [container]}, True),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, False),
        ({"containers": [{"name": "c", "resources": None}], "initContainers": None}, False),
    ):
        pod = parse_pod(make_pod("p", spec=spec), keep_raw=True)
        assert bool(chosen.deciding(Policy, pod)) is interested


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param({"filter_verb": "f"}, (True, False), id="filter"),
        pytest.param({"prioritize_verb": "p"}, (True, False), id="prioritize"),
        pytest.param({"preempt_verb": "p"}, (False, True), id="preempt"),
        pytest.param({"bind_verb": "b"}, (False, False), id="bind"),
        pytest.param({"filter_verb": "f", "preempt_verb": "p", "node_cache_capable": True}, (False, False), id="cache"),
    ],
)
def test_objects_are_kept_only_for_extenders_that_need_them(settings, kept):
    raw = raw_objects_for([Extender(**settings)], lambda _uid: None)
    assert (raw.keep_nodes, raw.keep_pods) == kept
    raw.put_node(make_node("a"))
    raw.put_pod(make_pod("p", uid="u"))
    assert (bool(raw.nodes), bool(raw.pods)) == kept
    raw.remove_node("a")
    raw.remove_pod("u")
    assert not raw.nodes
    assert not raw.pods
