"""The paths of the page over HTTP: who gets what, and how streams end."""

import asyncio
import gzip
import json
from dataclasses import replace

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.records.recent_decisions import RecentDecisions
from podwright.engine.view.waiting import PendingPod
from podwright.kube.serve.access import delegated_gate
from podwright.kube.serve.access.delegated_gate import MASTERS
from podwright.kube.serve.access.delegation import User
from podwright.kube.serve.access.gates import ABOUT_PODS
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.page import feed as feeds
from podwright.kube.serve.page import routes
from podwright.kube.serve.page.files import files
from podwright.kube.serve.page.shown import Shown
from support.engine.kit import Rig, settle
from support.objects.builders import make_node, make_pod
from support.page.plans import plans
from support.serve.kit import Delegate, Told, client_context, connect, get, hang_up, secure, serving
from support.waiting import patience, until

BEARER = "Authorization: Bearer secret"
DATA = (
    "/page/stream",
    "/page/node?name=a",
    "/page/policy?name=built-in-default",
    "/page/search?text=web",
    "/page/plan?name=tidy",
    "/page/picture?name=tidy",
)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(feeds, "TICK_SECONDS", 0.005)


def told():
    cache = Cache()
    cache.set_node(parse_node(make_node("a")))
    cache.assume(parse_pod(make_pod("web", namespace="team")), "a")
    pods = [PendingPod("team", "mine", "active", 0.0), PendingPod("other", "theirs", "active", 0.0)]
    shown = Shown(
        cache=cache,
        pods=lambda: pods,
        clock=lambda: 5.0,
        policies=Rig().engine.policies,
        decisions=RecentDecisions(lambda: 0.0),
    )
    return Told(shown=lambda: shown)


async def read_until(reader, name):
    """The data of the first event of this name, and all that came before it."""
    text = b""
    async with patience():
        while True:
            text += await reader.readuntil(b"\n\n")
            head, _, data = text.rpartition(b"event: ")[2].partition(b"\ndata: ")
            if head.decode() == name:
                return json.loads(data), text


async def stream(server, path="/page/stream", *headers, context=None):
    reader, writer = await connect(server, context)
    writer.write("\r\n".join([f"GET {path} HTTP/1.0", "Host: localhost", *headers, "", ""]).encode())
    return reader, writer


async def test_files_are_for_everybody_and_may_load_nothing_from_elsewhere():
    async with serving(told(), delegate=Delegate(), **secure(authentication_skip_lookup=True)) as server:
        for path in ("/page/", "/page/main.js", "/page/page.css", "/page/icon.svg"):
            status, headers, body = await get(server, path, context=client_context())
            assert (status, bool(body)) == (200, True)
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; ")
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")


async def test_files_are_sent_compressed_and_once():
    async with serving(told()) as server:
        _, headers, body = await get(server, "/page/main.js", "Accept-Encoding: gzip")
        assert gzip.decompress(body) == files()["main.js"].body
        status, _, body = await get(server, "/page/main.js", f"If-None-Match: {headers['etag']}")
        assert (status, body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/missing.js", "/page/../server.py", "/page/%2e%2e/routes.py", "/page/a/b.js", "/page/Main.js"]
)
async def test_other_files_do_not_exist(path):
    async with serving(told()) as server:
        assert (await get(server, path))[0] == 404


async def test_the_page_is_a_folder():
    async with serving(told()) as server:
        status, headers, _ = await get(server, "/page")
        assert (status, headers["location"]) == (308, "page/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_the_page_is_read_only(method):
    async with serving(told()) as server:
        for path in ("/page/", *DATA):
            assert (await get(server, path, method=method))[0] == 405


async def test_without_the_page_there_are_no_paths():
    async with serving(Told()) as server:
        for path in ("/page/", *DATA):
            assert (await get(server, path))[0] == 404


@pytest.mark.parametrize("path", DATA)
async def test_data_needs_the_right_to_its_path(path):
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    async with serving(told(), delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        context = client_context()
        assert (await get(server, path, context=context))[0] == 403  # anonymous
        assert (await get(server, path, "Authorization: Bearer wrong", context=context))[0] == 401
        status, _, body = await get(server, path, BEARER, context=context)
        assert status == 403
        assert f'cannot get path \\"{path.partition("?")[0]}\\"' in body.decode()


SIGHTS = [
    pytest.param((), "", [], id="no right to pods"),
    pytest.param(("team",), "", [], id="all pods, with the right to those of a namespace"),
    pytest.param(("team",), "team", ["mine"], id="the pods of a namespace"),
    pytest.param(("team",), "other", [], id="those of another namespace"),
    pytest.param(("",), "", ["mine", "theirs"], id="all pods"),
]


@pytest.mark.parametrize(("may_list", "namespace", "names"), SIGHTS)
async def test_pods_are_named_for_those_who_may_list_them(may_list, namespace, names):
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = {("ann", "get", "/page/stream"), *(("ann", "list", each) for each in may_list)}
    async with serving(told(), delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        reader, writer = await stream(server, f"/page/stream?namespace={namespace}", BEARER, context=client_context())
        found, text = await read_until(reader, "queue")
        await hang_up(writer)
    assert [pod[1] for pod in found["pods"]] == names
    assert sum(found["counts"]["active"]) == 2
    assert found["seesPods"] == (namespace in may_list)
    for name in {"mine", "theirs"} - {*names}:
        assert name.encode() not in text


@pytest.mark.parametrize(("may_list", "listed"), [((), []), (("",), ["web"])])
async def test_pods_of_a_node_are_named_for_those_who_may_list_them(may_list, listed):
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = {("ann", "get", "/page/node"), *(("ann", "list", each) for each in may_list)}
    async with serving(told(), delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        _, _, body = await get(server, "/page/node?name=a", BEARER, context=client_context())
    found = json.loads(body)
    assert ([pod["name"] for pod in found["pods"]], found["podCount"]) == (listed, 1)


PLAN_SIGHTS = [
    pytest.param((), "", set(), id="no right to pods"),
    pytest.param(("team",), "team", {"team"}, id="the pods of a namespace"),
    pytest.param(("",), "", {"team", "other"}, id="all pods"),
]


@pytest.mark.parametrize(("may_list", "namespace", "seen"), PLAN_SIGHTS)
async def test_moves_of_a_plan_are_listed_for_those_who_may_list_their_pods(may_list, namespace, seen):
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    paths = {("ann", "get", path) for path in ("/page/plan", "/page/picture", "/page/stream")}
    delegate.allowed = {*paths, *(("ann", "list", each) for each in may_list)}
    async with serving(await planned(), delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        context, query = client_context(), f"name=tidy&namespace={namespace}"
        _, _, body = await get(server, f"/page/plan?{query}", BEARER, context=context)
        status, headers, svg = await get(server, f"/page/picture?{query}&resource=cpu", BEARER, context=context)
        reader, writer = await stream(server, f"/page/stream?namespace={namespace}", BEARER, context=context)
        listed, _ = await read_until(reader, "plans")
        await hang_up(writer)
    found = json.loads(body)
    assert {move[0] for step in found["steps"] for move in step["moves"]} == seen
    assert listed["list"][0][:2] == ["tidy", "Plan"]
    assert (status, headers["content-type"].partition(";")[0]) == (200, "image/svg+xml")
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert b"web-" not in svg, "the picture names nodes only"


async def planned():
    rig = Rig()
    plans(rig)
    await settle()
    content = told()
    shown = replace(content.shown(), rebalancing=rig.engine.rebalancing)
    return Told(shown=lambda: shown)


async def test_a_plan_that_is_unknown_is_not_found():
    for content in (told(), await planned(), Told(shown=lambda: None)):
        async with serving(content) as server:
            assert (await get(server, "/page/plan?name=other"))[0] == 404
            assert (await get(server, "/page/picture?name=other"))[0] == 404


async def test_administrators_see_everything():
    delegate = Delegate()
    delegate.users["secret"] = User("root", (MASTERS,))
    async with serving(told(), delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        _, _, body = await get(server, "/page/node?name=a", BEARER, context=client_context())
    assert [pod["name"] for pod in json.loads(body)["pods"]] == ["web"]


@pytest.mark.parametrize("namespace", ["A", "a/b", "..", "a" * 64, "%00"])
async def test_a_namespace_that_is_none_is_refused(namespace):
    async with serving(told()) as server:
        assert (await get(server, f"/page/stream?namespace={namespace}"))[0] == 400


FOREIGN = [
    pytest.param({"host": "evil.example:80"}, (), 403, id="a name that another website gave this machine"),
    pytest.param({"host": "localhost.evil.example"}, (), 403, id="a name that begins with localhost"),
    pytest.param({"host": "localhost:80"}, ("Sec-Fetch-Site: cross-site",), 403, id="a request of another website"),
    pytest.param({"host": "localhost:80"}, ("Sec-Fetch-Site: same-site",), 403, id="a request from another port"),
    pytest.param({"host": "localhost:80"}, ("Sec-Fetch-Site: same-origin",), 200, id="a request of the page"),
    pytest.param({"host": "127.0.0.1:80"}, ("Sec-Fetch-Site: none",), 200, id="an address that somebody typed"),
    pytest.param({"host": "[::1]:80"}, (), 200, id="an IPv6 address"),
]


@pytest.mark.parametrize(("options", "headers", "status"), FOREIGN)
async def test_other_websites_get_nothing_from_loopback(options, headers, status):
    async with serving(told()) as server:
        assert (await get(server, "/page/node?name=a", *headers, **options))[0] == status
        assert (await get(server, "/page/", *headers, **options))[0] == 200


@pytest.mark.parametrize("path", ABOUT_PODS)
async def test_whatever_names_pods_is_not_for_other_websites(path):
    async with serving(told()) as server:
        for host, headers in (("evil.example:80", ()), ("localhost:80", ("Sec-Fetch-Site: cross-site",))):
            assert (await get(server, path, *headers, host=host))[0] == 403
        assert (await get(server, "/metrics/resources", host="localhost:80"))[0] == 200


async def test_a_local_policy_is_for_those_who_may_list_the_pods_of_its_namespace():
    content, key = told(), "team/local"
    policies = content.shown().policies
    raw = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "LocalSchedulerPolicy",
        "metadata": {"name": "local", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {},
    }
    policies.apply_local(raw)
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = {("ann", "get", "/page/policy"), ("ann", "get", "/page/stream"), ("ann", "list", "team")}
    async with serving(content, delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        context = client_context()
        for namespace, status in (("team", 200), ("", 404), ("other", 404)):
            path = f"/page/policy?name={key}&namespace={namespace}"
            assert (await get(server, path, BEARER, context=context))[0] == status
            reader, writer = await stream(server, f"/page/stream?namespace={namespace}", BEARER, context=context)
            found, _ = await read_until(reader, "policies")
            await hang_up(writer)
            assert ("local" in [each[1] for each in found["list"]]) == (status == 200)
            assert found["unlisted"] == (status != 200)


async def test_what_went_wrong_with_a_policy_is_for_those_who_see_all_pods():
    content = told()
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = {("ann", "get", "/page/policy")}
    path = "/page/policy?name=built-in-default"
    async with serving(content, delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        _, _, body = await get(server, path, BEARER, context=client_context())
    assert "faults" not in json.loads(body)
    async with serving(content) as server:
        _, _, body = await get(server, path)
    assert json.loads(body)["faults"] == []


async def test_an_unknown_node_is_not_found():
    async with serving(told()) as server:
        assert (await get(server, "/page/node?name=b"))[0] == 404
        assert (await get(server, "/page/node"))[0] == 404


async def test_before_the_start_nodes_are_not_found():
    async with serving(Told(shown=lambda: None)) as server:
        assert (await get(server, "/page/node?name=a"))[0] == 404


async def reopened(server):
    """The status of a new stream, which ends at once."""
    reader, writer = await stream(server)
    status = (await reader.readline()).split()[1]
    await hang_up(writer)
    return status


async def test_streams_are_few(monkeypatch):
    monkeypatch.setattr(feeds, "MOST_VIEWERS", 2)
    async with serving(told()) as server:
        first, second = [await stream(server) for _ in range(2)]
        for reader, _ in (first, second):
            await read_until(reader, "nodes")
        status, headers, _ = await get(server, "/page/stream")
        assert (status, headers["retry-after"]) == (503, "5")
        await hang_up(first[1])

        async with patience():
            while await reopened(server) != b"200":
                pass
        await hang_up(second[1])


async def viewers(server):
    _, _, body = await get(server, "/metrics")
    return [line for line in body.decode().splitlines() if line.startswith("podwright_page_viewers")]


async def test_a_metric_tells_how_many_people_look():
    async with serving(told()) as server:
        assert await viewers(server) == ["podwright_page_viewers 0.0"]
        first, second = [await stream(server) for _ in range(2)]
        for reader, _ in (first, second):
            await read_until(reader, "nodes")
        assert await viewers(server) == ["podwright_page_viewers 2.0"]
        await hang_up(first[1])
        async with patience():
            while await viewers(server) != ["podwright_page_viewers 1.0"]:
                pass
        await hang_up(second[1])


async def test_without_the_page_there_is_no_metric_of_it():
    async with serving(Told()) as server:
        assert await viewers(server) == []


async def test_a_stream_lasts_longer_than_other_answers_may():
    limits = ClientLimits(connections=8, total_seconds=0.2)
    async with serving(told(), limits=limits) as server:
        reader, writer = await stream(server)
        await read_until(reader, "queue")
        await asyncio.sleep(0.4)
        await read_until(reader, "queue")
        await hang_up(writer)


async def test_a_stream_ends_so_that_the_right_to_it_is_reviewed_again(monkeypatch):
    monkeypatch.setattr(routes, "STREAM_SECONDS", 0.1)
    monkeypatch.setattr(routes, "SILENT_SECONDS", 0.05)
    async with serving(told()) as server:
        status, _, body = await get(server, "/page/stream")
    assert status == 200
    assert b"event: nodes" in body


async def test_a_silent_stream_says_that_it_is_alive(monkeypatch):
    monkeypatch.setattr(routes, "SILENT_SECONDS", 0.02)
    async with serving(Told(shown=lambda: None)) as server:
        reader, writer = await stream(server)
        async with patience():
            await reader.readuntil(b": nothing new\n\n")
        await hang_up(writer)


async def test_a_client_that_leaves_ends_its_stream(monkeypatch):
    monkeypatch.setattr(feeds, "MOST_VIEWERS", 1)
    async with serving(told()) as server:
        reader, writer = await stream(server)
        await read_until(reader, "nodes")
        await hang_up(writer)
        async with patience():
            while await reopened(server) != b"200":
                pass


async def test_a_client_that_does_not_read_is_dropped():
    limits = ClientLimits(connections=8, stall_seconds=0.1)
    content = told()
    shown = content.shown()
    for number in range(20_000):
        shown.cache.set_node(parse_node(make_node(f"{'x' * 245}-{number}")))
    async with serving(content, limits=limits) as server:
        _, writer = await connect(server)
        writer.transport.pause_reading()
        writer.write(b"GET /page/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: content.dropped("stall") == 1)
        await hang_up(writer)
