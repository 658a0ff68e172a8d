"""All watches of a runtime: those that come and go are included, and one that cannot go on holds up no takeover."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from podwright.kube.kinds import NODE
from podwright.kube.watch import watches as module
from podwright.kube.watch.watches import Watches
from support.waiting import until


class FakeReflector:
    """The sink says up to which version it gets."""

    def __init__(self, _http=None, _resource=None, sink=None, field_selector=""):
        self.synced = asyncio.Event()
        self.synced.set()
        self.blind_since = None
        self.known = {}
        self._reaches = 0 if sink is None else sink.reaches
        self.free = True

    async def run(self):
        raise NotImplementedError

    def hold_back(self):
        self.free = False

    def go_on(self):
        self.free = True

    async def reach(self, version):
        if self._reaches < version:
            await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "Reflector", FakeReflector)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)


def watching(**reaches):
    found = Watches(SimpleNamespace(), lambda _name, _work: None)
    for name, version in reaches.items():
        found.start(name.replace("_", " "), NODE, SimpleNamespace(reaches=version))
    return found


async def test_reflectors_that_come_and_go_are_included_while_they_are_there():
    watches, others = watching(nodes=9), {}
    watches.include(lambda: others)
    others["podgroups"] = late = FakeReflector()
    late.synced.clear()
    late.blind_since = 0.0
    assert watches.missing() == ["podgroups"]
    late.synced.set()
    assert "podgroups" in watches
    assert list(watches.blind()) == ["podgroups"]
    del others["podgroups"]
    assert watches.names == ["nodes"]
    assert watches.blind() == {}


async def test_a_version_is_reached_when_every_watch_has_it():
    await watching(nodes=9, assigned_pods=9, services=12).reach(9)


@pytest.mark.parametrize("name", ["nodes", "assigned_pods", "pending_pods"])
async def test_nodes_and_pods_are_waited_for_as_long_as_that_takes(name, caplog):
    reaching = asyncio.create_task(watching(**{"nodes": 9, "assigned_pods": 9, name: 8}).reach(9))
    await until(lambda: f"the watches of {name.replace('_', ' ')} have not reached version 9" in caplog.text)
    await asyncio.sleep(0.05)
    assert not reaching.done()
    reaching.cancel()


async def test_another_kind_is_waited_for_only_for_a_while(caplog):
    await watching(nodes=9, services=8).reach(9)
    assert "the watches of services have not reached version 9" in caplog.text


async def test_a_reflector_that_has_gone_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "ESSENTIAL", ("nodes", "podgroups"))
    watches, others = watching(nodes=9), {"podgroups": FakeReflector()}
    watches.include(lambda: others)
    reaching = asyncio.create_task(watches.reach(9))
    await asyncio.sleep(0.05)
    assert not reaching.done()
    others.clear()
    await reaching


async def test_all_are_held_back_together():
    watches, late = watching(nodes=9), FakeReflector()
    watches.include(lambda: {"podgroups": late})
    watches.hold_back()
    assert not late.free
    watches.go_on()
    assert late.free
