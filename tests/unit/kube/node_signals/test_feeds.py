"""Feeds on sources that answer, refuse, lie, hang and die: only the age of their own signal may suffer."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import replace

import pytest
from aiohttp import web

from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.kube.client.errors import ConfigError
from podwright.kube.node_signals import sources
from support.engine.kit import Rig, deciding, ours, settle, values
from support.http.kit import api, forever, hangs_up, says, served
from support.signals.feeds import WALL, feeds_of, prometheus_says, vector

NOT_ENDED = "bearerTokenFile and caFile: an earlier attempt to read them has not ended"
LOAD = """
- name: load
  default: 50
  staleness: 60s
  timeout: 30s
  interval: 1s
  maximum: 1000
  prometheus: {url: URL, query: up, nodeLabel: node}
"""
IMPATIENT = LOAD.replace("30s", "300ms")
METRICS = """
- {name: used, default: 50, resource: cpu, timeout: 30s, metricsAPI: {}}
"""


def rig_with(file, url, nodes=("a", "b")):
    signals = load_signals(f"signals:{file.replace('URL', url)}".encode())
    rig = Rig(policies=PolicySettings(signals=signals))
    rig.signals = signals
    for name in nodes:
        rig.node(name, allocatable={"cpu": "10"})
    return rig


def loads(rig, name="load"):
    signals = rig.engine.cache.signals
    return {node: signals.value(name, node) for node in ("a", "b")}


async def asked(rig, feeds):
    """Asks each source once. Returns what is wrong."""
    task = asyncio.create_task(feeds.run())
    await feeds.first_answers()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return feeds.problem()


async def test_prometheus_is_asked_and_its_numbers_are_the_nodes():
    async with served(prometheus_says(vector(a=12.5, b=80))) as (url, script):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        assert await asked(rig, feeds) == ""
        assert loads(rig) == {"a": 12.5, "b": 80.0}
        (request,) = script.requests
        assert (request.method, request.path, request.query) == ("GET", "/api/v1/query", {"query": "up"})
        assert "Authorization" not in request.headers
        assert values(rig, "podwright_signal_age_seconds") == {("load",): 1.0}
        assert values(rig, "podwright_signal_nodes") == {("load",): 2.0}
        assert values(rig, "podwright_signal_errors_total") == {("load",): 0.0}
        await feeds.close()


async def test_metrics_k8s_io_is_asked_with_the_operators_credentials():
    items = [{"metadata": {"name": "a"}, "timestamp": "2027-01-15T08:00:00Z", "usage": {"cpu": "2500m"}}]
    async with api(says(200, {"kind": "NodeMetricsList", "items": items}, **{"Content-Type": "application/json"})) as (http, script):  # fmt: skip
        rig = rig_with(METRICS, "")
        assert await asked(rig, feeds_of(rig, http)) == ""
        assert loads(rig, "used") == {"a": 25.0, "b": 50.0}
        assert script.asked == ["GET /apis/metrics.k8s.io/v1beta1/nodes"]
        assert script.requests[0].headers["Authorization"] == "Bearer t"


LIES = [
    pytest.param(prometheus_says(vector(a="NaN", b="+Inf")), "the numbers of 2 nodes are not finite, or out of bounds", id="NaN and infinity"),
    pytest.param(prometheus_says(vector(a=-1, b="-Inf")), "the numbers of 2 nodes are not finite, or out of bounds", id="negative numbers"),
    pytest.param(prometheus_says(vector(a=1001)), "the numbers of 1 nodes are not finite", id="above the maximum"),
    pytest.param(prometheus_says(vector(c=1, d=2)), "none of its nodes exists, such as c", id="unknown nodes"),
    pytest.param(prometheus_says(vector()), "the answer has no entries", id="nothing"),
    pytest.param(prometheus_says(vector(age=61, a=1, b="NaN", c=2)), "none of its numbers is recent enough", id="old numbers"),
    pytest.param(prometheus_says(vector(a="high")), "1 entries have no node, no number or no time", id="text"),
    pytest.param(prometheus_says({"data": {"result": vector(a=1)["data"]["result"] * 2}}), "1 nodes have several entries, such as a", id="duplicates"),
    pytest.param(prometheus_says(vector(a=1), content_type="text/html"), "the answer is text/html, not application/json", id="another content type"),
    pytest.param(says(200, {}, **{"Content-Type": "application/json", "Content-Encoding": "gzip"}), "the answer is compressed (gzip)", id="a compressed answer"),
    pytest.param(prometheus_says(b"<html>"), "the answer ends early", id="no JSON"),
    pytest.param(prometheus_says(b'{"data": {"result": [{"metric'), "the answer ends early", id="half an answer"),
    pytest.param(prometheus_says({"status": "success", "data": {"resultType": "scalar"}}), "the answer has no data.result", id="a scalar"),
    pytest.param(prometheus_says({"data": {"result": [{"metric": {"node": "a"}, "values": [[1, "2"]]}]}}), "1 entries have no node", id="a matrix"),
    pytest.param(prometheus_says({"status": "error", "error": "parse error\x1b[31m at char 3"}, 400), "HTTP 400: parse error [31m at char 3", id="a refusal"),
    pytest.param(prometheus_says(b"x" * 100_000, 502), "HTTP 502: xxxx", id="a long refusal"),
    pytest.param(says(302, {}, Location="http://elsewhere.example/"), "HTTP 302", id="a redirect"),
    pytest.param(prometheus_says(vector(**{f"n{i}": 1 for i in range(2000)})), "the answer has more than 1008 entries", id="many series"),
    pytest.param(prometheus_says(b'{"data": {"result": [' + b" " * 2_000_000 + b"]}}"), "the answer is too long", id="a huge body"),
    pytest.param(prometheus_says(b'{"data": {"result": [' + b"[]," * 3_000 + b"]}}"), "the answer has no entries", id="many brackets"),
    pytest.param(hangs_up(), "Server disconnected", id="a broken connection"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "problem"), LIES)
async def test_a_source_that_lies_changes_nothing_but_the_age_of_its_signal(answer, problem):
    async with served(prometheus_says(vector(a=12.5, b=80)), default=answer) as (url, _):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        assert await asked(rig, feeds) == ""
        rig.now += 10.0
        version = rig.engine.cache.version
        found = await asked_again(feeds)
        assert problem in found
        assert found.isprintable()
        assert len(found) < 400
        assert loads(rig) == {"a": 12.5, "b": 80.0}
        assert rig.engine.cache.version == version
        assert values(rig, "podwright_signal_age_seconds") == {("load",): 11.0}
        assert values(rig, "podwright_signal_errors_total") == {("load",): 1.0}
        rig.now += 50.0
        rig.engine.node_signals.tick()
        assert loads(rig) == {"a": 50.0, "b": 50.0}, "in the end its numbers are too old"
        assert values(rig, "podwright_signal_nodes") == {("load",): 0.0}
        await feeds.close()


async def asked_again(feeds):
    for feed in feeds.feeds:
        await feed.ask()
    return feeds.problem()


async def test_a_source_that_hangs_is_given_up_and_delays_nothing():
    async def hang(_request):
        await forever()

    async with served(default=hang) as (url, _):
        rig = rig_with(IMPATIENT, url)
        feeds = feeds_of(rig)
        async with deciding(rig):
            task = asyncio.create_task(feeds.run())
            rig.engine.pending.put(ours("p"))
            await settle()
            assert rig.placed_on("p") != ""
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await asked_again(feeds) == "signal load: no answer within 0.3 s"
        await feeds.close()


async def test_a_body_that_never_ends_is_given_up():
    async def trickle(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"data": {"result": [')
        await forever()

    async with served(default=trickle) as (url, _):
        rig = rig_with(IMPATIENT, url)
        feeds = feeds_of(rig)
        assert await asked(rig, feeds) == "signal load: no answer within 0.3 s"
        await feeds.close()


async def test_numbers_count_from_the_question_however_long_the_answer_takes():
    async def slow(_request):
        rig.now += 40.0
        return web.json_response(vector(age=5, a=1, b=2))

    async with served(slow) as (url, _):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        assert await asked_again(feeds) == ""
        assert values(rig, "podwright_signal_age_seconds") == {("load",): 45.0}
        rig.now += 15.5
        rig.engine.node_signals.tick()
        assert loads(rig) == {"a": 50.0, "b": 50.0}
        await feeds.close()


async def test_numbers_that_are_too_old_when_they_arrive_are_a_problem_until_one_is_not():
    mixed = vector(age=61, a=1)
    mixed["data"]["result"] += vector(b=2)["data"]["result"]
    async with served(prometheus_says(vector(age=3600, a=1, b=2)), prometheus_says(mixed)) as (url, _):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        assert await asked_again(feeds) == "signal load: none of its numbers is recent enough"
        assert await asked_again(feeds) == ""
        assert loads(rig) == {"a": 50.0, "b": 2.0}
        await feeds.close()


@pytest.mark.parametrize(
    ("time", "problem"),
    [("2027-01-15T07:00:00Z", "signal heat: none of its numbers is recent enough"), ("2027-01-15T08:00:00Z", "")],
)
def test_annotations_that_are_all_too_old_are_a_problem(time, problem):
    rig = rig_with("\n- {name: heat, annotation: {key: example.com/heat, timeKey: example.com/time}}\n", "", nodes=())
    rig.now = WALL
    rig.node("a", annotations={"example.com/heat": "1", "example.com/time": time})
    assert feeds_of(rig).problem() == problem


async def test_a_source_that_comes_back_is_believed_again(caplog):
    async with served(says(503), says(503), prometheus_says(vector(a=1))) as (url, _):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        with caplog.at_level("INFO"):
            assert await asked_again(feeds) != ""
            assert await asked_again(feeds) != ""
            assert await asked_again(feeds) == ""
        assert [record.message.partition(":")[0] for record in caplog.records if "signal" in record.message] == [
            "signal load"
        ] * 2
        assert loads(rig)["a"] == 1.0
        await feeds.close()


async def test_other_tasks_run_while_a_long_answer_is_read():
    many = {f"n{i}": i % 100 for i in range(3000)}
    async with served(prometheus_says(vector(**many))) as (url, _):
        rig = rig_with(LOAD, url, nodes=many)
        feeds = feeds_of(rig)
        turns = 0

        async def count():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        assert await asked_again(feeds) == ""
        counting.cancel()
        assert turns > len(json.dumps(vector(**many))) // (1 << 13), "at least once for each piece"
        assert values(rig, "podwright_signal_nodes") == {("load",): 3000.0}
        await feeds.close()


async def test_waiting_pods_are_tried_again_once_a_node_passes():
    policy = {
        "metadata": {"name": "pol", "uid": "pol", "generation": 1},
        "spec": {"signals": ["load"], "rules": {"filters": [{"name": "idle", "expression": "signals.load < 20.0"}]}},
    }
    answers = (prometheus_says(vector(a=30, b=40)), prometheus_says(vector(a=30, b=10)))
    async with served(*answers) as (url, _):
        rig = rig_with(LOAD, url)
        feeds = feeds_of(rig)
        assert rig.engine.policies.apply(policy).accepted
        async with deciding(rig):
            rig.pod("p")
            await settle()
            assert rig.counts == {"unschedulable": 1}
            await asked_again(feeds)
            await settle()
            assert rig.counts == {"unschedulable": 1}
            await asked_again(feeds)
            rig.now += 20.0
            await settle()
            assert rig.placed_on("p") == "b"
        await feeds.close()


# Credentials


async def test_the_token_is_read_for_each_question(tmp_path):
    token = tmp_path / "token"
    async with served(default=prometheus_says(vector(a=1))) as (url, script):
        rig = rig_with(LOAD, url)
        settings = replace(rig.signals["load"].prometheus, bearer_token_file=str(token))
        rig.signals = {"load": replace(rig.signals["load"], prometheus=settings)}
        feeds = feeds_of(rig)
        assert "bearerTokenFile" in await asked_again(feeds)
        for text in ("one\n", "two"):
            token.write_text(text)
            assert await asked_again(feeds) == ""
        token.write_text("a\nb")
        assert "is no token" in await asked_again(feeds)
        assert [request.headers["Authorization"] for request in script.requests] == ["Bearer one", "Bearer two"]
        await feeds.close()


async def test_files_that_do_not_answer_hold_up_one_thread_and_only_their_own_source(tmp_path, monkeypatch):
    """As on a network file system whose server is gone."""
    hangs, reading = threading.Event(), []

    def read(_path):
        reading.append(threading.current_thread())
        hangs.wait()
        return b"token"

    async with served(default=prometheus_says(vector(a=1))) as (url, script):
        rig = rig_with(IMPATIENT, url)
        settings = replace(rig.signals["load"].prometheus, bearer_token_file=str(tmp_path / "token"))
        rig.signals = {"load": replace(rig.signals["load"], prometheus=settings)}
        feeds = feeds_of(rig)
        monkeypatch.setattr(sources, "read_at_most", read)
        assert await asked_again(feeds) == "signal load: no answer within 0.3 s"
        for _ in range(3):
            assert await asked_again(feeds) == f"signal load: {NOT_ENDED}"
        (thread,) = reading
        assert thread.daemon, "the process can end"
        assert not script.requests
        hangs.set()
        thread.join()
        assert await asked_again(feeds) == ""
        assert [request.headers["Authorization"] for request in script.requests] == ["Bearer token"]
        await feeds.close()


async def test_a_token_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(pipe := tmp_path / "token")
    rig = rig_with(LOAD, "http://127.0.0.1:1")
    settings = replace(rig.signals["load"].prometheus, bearer_token_file=str(pipe))
    rig.signals = {"load": replace(rig.signals["load"], prometheus=settings)}
    feeds = feeds_of(rig)
    assert await asked_again(feeds) == f"signal load: bearerTokenFile: {pipe}: is not a regular file"
    await feeds.close()


def test_a_proxy_that_cannot_be_used_is_an_error_at_the_start(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "socks5://proxy.example")
    with pytest.raises(ConfigError):
        feeds_of(rig_with(LOAD, "http://prometheus.example"))
