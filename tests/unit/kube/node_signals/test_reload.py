"""The file of --signals is taken again when it changes, whole or not at all."""

from __future__ import annotations

import asyncio
import logging

import pytest

from podwright.api.configuration.signals import SignalsFile, load_signals
from podwright.api.permissions import PolicySettings
from podwright.engine.process import file_reload
from podwright.kube.node_signals.reload import SignalReload
from support.engine.kit import Rig, deciding, ours, settle, values
from support.http.kit import served
from support.policies.local import local_policy
from support.policies.policy_sets import policy
from support.signals.feeds import feeds_of, prometheus_says, vector

PROMETHEUS = (
    "- {name: load, default: 50, staleness: 60s, interval: 1s, resource: cpu, prometheus: {url: URL, query: up}}"
)
NOTED = "- {name: noted, default: 1, resource: cpu, annotation: {key: example.com/load}}"
FIXED = "- {name: fixed, values: {a: 7}}"


class Files:
    """A rig whose signals come from a file."""

    def __init__(self, path, *entries, url=""):
        self.path = path
        self.url = url
        content = self.write(*entries)
        signals = load_signals(content)
        self.rig = Rig(policies=PolicySettings(signals=signals))
        self.rig.signals = signals
        self.feeds = feeds_of(self.rig)
        file = SignalsFile(str(path), content, signals)
        self.reload = SignalReload(file, engine=self.rig.engine, feeds=self.feeds, metrics=self.rig.ports.metrics)
        for name in "ab":
            self.rig.node(name, allocatable={"cpu": "10"}, annotations={"example.com/load": "30"})

    def write(self, *entries):
        content = ("signals:\n" + "\n".join(entries)).replace("URL", self.url).encode()
        self.path.write_bytes(content)
        return content

    async def change(self, *entries):
        """Returns the problem after the file has become this."""
        self.write(*entries)
        await self.poll()
        return self.feeds.problem()

    async def poll(self):
        await self.reload.poll()
        await self.reload.poll()

    @property
    def known(self):
        return [*self.rig.engine.cache.signals.definitions]

    def value(self, name, node="a"):
        return self.rig.engine.cache.signals.value(name, node)

    @property
    def reloads(self):
        return {result: count for (result,), count in values(self.rig, "podwright_signal_reloads_total").items()}

    def apply(self, name="p", **spec):
        return self.rig.engine.policies.apply(policy(name, {"schedulerName": "podwright", **spec}))


@pytest.fixture
def files(tmp_path):
    return lambda *entries, **more: Files(tmp_path / "signals.yaml", *entries, **more)


async def test_signals_are_added_changed_and_removed(files, caplog):
    caplog.set_level(logging.INFO)
    it = files(FIXED)
    assert await it.change(NOTED) == ""
    assert (it.known, it.value("noted")) == (["noted"], 30.0)
    assert it.apply(signals=["noted"]).accepted
    assert "signal 'fixed' is not defined" in it.apply("q", signals=["fixed"]).message
    assert await it.change(NOTED.replace("load}", "other}"), FIXED) == ""
    assert (it.known, it.value("noted"), it.value("fixed")) == (["noted", "fixed"], 1.0, 7.0)
    assert it.reloads == {"success": 2.0}
    assert "the file of --signals was taken: new: noted; gone: fixed" in caplog.text
    assert "the file of --signals was taken: new: fixed; changed: noted" in caplog.text


async def test_the_first_signal_may_come_with_a_reload_and_nodes_that_come_later_have_it(files):
    it = files()
    await it.change(NOTED)
    it.rig.node("c", annotations={"example.com/load": "70"})
    assert (it.value("noted"), it.value("noted", "c")) == (30.0, 70.0)


async def test_a_change_is_taken_once_two_readings_agree(files):
    it = files(FIXED)
    it.write(FIXED, NOTED)
    await it.reload.poll()
    it.write(NOTED)
    await it.reload.poll()
    assert it.known == ["fixed"]
    await it.reload.poll()
    assert it.known == ["noted"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"signals: [{name: load}]", "signals[0]: needs exactly one of metricsAPI, prometheus, annotation and values"),
        (b"signals: [{name: load, values: {}, valeus: 1}]", "signals[0].valeus: unknown field"),
        (b"signals: [", "is not valid YAML"),
        (
            b"signals:\n- {name: load, default: 5, minimum: 9, maximum: 8, values: {}}",
            "signals[0].maximum: is less than the minimum",
        ),
        (None, "No such file or directory"),
        (b"#" * (1 << 21), "the file is larger than"),
    ],
    ids=["a problem", "an unknown field", "no YAML", "bounds", "no file", "a huge file"],
)
async def test_a_file_that_cannot_be_used_changes_nothing_and_is_reported_once(files, caplog, content, problem):
    it = files(FIXED)
    if content is None:
        it.path.unlink()
    else:
        it.path.write_bytes(content)
    await it.poll()
    await it.poll()
    assert (it.known, it.value("fixed")) == (["fixed"], 7.0)
    assert "the signals that were defined before go on" in it.feeds.problem()
    assert problem in it.feeds.problem()
    assert it.reloads == {"error": 1.0}
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 1
    it.write(FIXED)
    await it.poll()
    assert it.feeds.problem() == ""


@pytest.mark.parametrize(
    ("spec", "change", "problem"),
    [
        ({"signals": ["noted"]}, FIXED, "policy p: signal 'noted' is not defined"),
        ({"delegation": {"signals": ["noted"]}}, FIXED, "policy p: signal 'noted' is not defined"),
        (
            {"signals": ["noted"], "strategy": {"type": "LoadAware"}},
            "- {name: noted, annotation: {key: example.com/load}}",
            "policy p: signal 'noted' measures no resource",
        ),
    ],
    ids=["a policy names it", "a policy delegates it", "a strategy needs its resource"],
)
async def test_definitions_that_a_policy_could_not_go_on_with_are_refused_until_it_could(
    files, monkeypatch, spec, change, problem
):
    monkeypatch.setattr(file_reload, "RETRY_SECONDS", 0.0)
    it = files(NOTED)
    assert it.apply(**spec).accepted
    assert problem in await it.change(change)
    assert it.value("noted") == 30.0
    it.rig.engine.policies.remove("p")
    await it.poll()
    assert it.feeds.problem() == ""
    assert it.known == [*load_signals(f"signals:\n{change}".encode())]


async def test_a_local_policy_that_lacks_a_signal_keeps_it_defined(files):
    it = files(NOTED)
    delegation = {"signals": ["noted"], "rules": True}
    assert it.apply(delegation=delegation).accepted
    assert it.rig.engine.policies.apply_local(local_policy(signals=["noted"])).accepted
    assert "policy team-a/ours: signal 'noted' is not defined" in await it.change(FIXED)


async def test_a_refused_policy_is_tried_again_when_its_signal_is_defined(files):
    it = files(FIXED)
    woken = []
    it.rig.engine.policies.policy_set.listen(lambda: woken.append(True))
    assert not it.apply(signals=["noted"]).accepted
    await it.change(FIXED, NOTED)
    assert woken
    assert it.apply(signals=["noted"]).accepted


async def test_pods_are_placed_by_the_new_definition_at_once(files):
    it = files(NOTED)
    it.rig.node("b", allocatable={"cpu": "10"}, annotations={"example.com/load": "30", "example.com/other": "90"})
    it.rig.node("a", allocatable={"cpu": "10"}, annotations={"example.com/load": "30", "example.com/other": "10"})
    rules = {"filters": [{"name": "busy", "expression": "signals.noted > 50.0", "message": "idle"}]}
    assert it.apply(signals=["noted"], rules=rules).accepted
    async with deciding(it.rig):
        it.rig.engine.pending.put(ours("p"))
        await settle()
        assert it.rig.cluster.bound == []
        await it.change(NOTED.replace("load}", "other}"))
        it.rig.now += 30
        it.rig.engine.wake()
        await settle()
        assert it.rig.cluster.bound == [("p", "b")]


async def test_a_strategy_goes_on_with_what_was_placed_since_and_the_new_resource(files):
    it = files(NOTED)
    assert it.apply(signals=["noted"], strategy={"type": "LoadAware"}).accepted
    async with deciding(it.rig):
        it.rig.engine.pending.put(ours("p", requests={"cpu": "1"}))
        await settle()
        assert await it.change(NOTED.replace("cpu", "memory")) == ""
        it.rig.engine.pending.put(ours("q", requests={"memory": "1Gi"}))
        await settle()
    assert len(it.rig.cluster.bound) == 2


async def test_feeds_of_unchanged_signals_go_on_and_those_of_others_begin_and_end(files):
    async with served(*[prometheus_says(vector(a=12.5, b=80))] * 20) as (url, script):
        it = files(PROMETHEUS, url=url)
        task = asyncio.create_task(it.feeds.run())
        await it.feeds.first_answers()
        (feed,) = it.feeds.feeds
        assert await it.change(PROMETHEUS, FIXED) == ""
        assert [*it.feeds.feeds] == [feed]
        assert it.value("load") == 12.5
        assert await it.change(PROMETHEUS.replace("query: up", "query: down")) == ""
        assert feed not in it.feeds.feeds
        await it.feeds.first_answers()
        assert [request.query["query"] for request in script.requests[-1:]] == ["down"]
        assert it.value("load") == 12.5
        assert await it.change(FIXED) == ""
        asked = len(script.requests)
        await asyncio.sleep(0.05)
        assert len(script.requests) == asked
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
