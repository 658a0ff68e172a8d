"""The audit of a watch finds missed events, and leaves alone events that are only late."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.media_types import METADATA_LIST
from podwright.kube.kinds import NODE
from podwright.kube.watch import audit as module
from podwright.kube.watch.audit import audit, audit_for_ever
from support.waiting import patience


class FakeReflector:
    """Knows `known`; the server has the pages `listed`, at version 9; an error among them is raised once.

    The watch has come to version `watched`.
    """

    resource = NODE
    list_count = 1

    def __init__(self, known: dict[str, int], *listed: dict[str, int] | Exception, watched: int = 9) -> None:
        self.known = known
        self.deleted: set[str] = set()
        self.collecting = False
        self.synced = asyncio.Event()
        self.resource_version = watched
        self.listed = list(listed)
        self.accepted: list[str] = []
        self.others: set[str] = set()
        self.relists = 0

    def held(self):
        return {*self.known, *self.others}

    def key(self, raw):
        return raw["metadata"]["name"]

    async def pages(self, accept):
        self.accepted.append(accept)
        for objects in list(self.listed):
            if isinstance(objects, Exception):
                self.listed.remove(objects)
                raise objects
            items = [{"metadata": {"name": name, "resourceVersion": str(at)}} for name, at in objects.items()]
            yield {"metadata": {"resourceVersion": "9"}, "items": items}

    @contextmanager
    def deletions(self):
        self.collecting = True
        yield self.deleted
        self.collecting = False

    def request_relist(self):
        self.relists += 1


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "LATE_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("known", "listed", "missed"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="nothing missed"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, ["b"], id="a deletion"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, ["b"], id="a new object"),
        pytest.param({"a": 1}, {"a": 5}, ["a"], id="a change"),
        pytest.param({"a": 7}, {"a": 5}, [], id="nothing missed, the watch is ahead of the list"),
        pytest.param({"a": 0}, {"a": 0}, [], id="nothing missed, versions are not numbers"),
    ],
)
@pytest.mark.parametrize("watched", [9, 4], ids=["the watch is past the list", "the watch is behind the list"])
async def test_missed_events_are_found(known, listed, missed, watched):
    reflector = FakeReflector(known, listed, watched=watched)
    assert await audit(reflector) == missed
    assert reflector.accepted == [METADATA_LIST]
    assert not reflector.collecting


async def test_all_pages_are_compared():
    reflector = FakeReflector({"a": 1, "b": 2, "c": 3}, {"a": 1}, {"b": 2})
    assert await audit(reflector) == ["c"]


async def test_a_deleted_object_from_another_source_is_found():
    reflector = FakeReflector({"a": 1}, {"a": 1})
    reflector.others = {"ghost"}
    assert await audit(reflector) == ["ghost"]


async def test_late_events_are_not_missed(monkeypatch):
    monkeypatch.setattr(module, "LATE_SECONDS", 60.0)
    reflector = FakeReflector({"gone": 1, "old": 1}, {"old": 5, "new": 6, "brief": 7}, watched=1)

    async def late(_seconds):
        del reflector.known["gone"]
        reflector.known.update(old=5, new=6)
        reflector.deleted.add("brief")

    monkeypatch.setattr(module.asyncio, "sleep", late)
    assert await audit(reflector) == []


async def test_a_relist_during_the_audit_makes_it_void(monkeypatch):
    reflector = FakeReflector({"a": 1}, {"a": 1, "short": 2}, watched=1)

    async def late(_seconds):
        reflector.list_count += 1

    monkeypatch.setattr(module.asyncio, "sleep", late)
    assert await audit(reflector) == []


@pytest.mark.parametrize("error", [ClusterError("away"), ZeroDivisionError("a bug")], ids=repr)
async def test_auditing_continues_after_an_error(monkeypatch, error):
    wait = asyncio.sleep
    monkeypatch.setattr(module.asyncio, "sleep", lambda _: wait(0))
    reflector = FakeReflector({"a": 1}, {"a": 1})
    fails = [error] * 3

    async def pages(_accept):
        if fails:
            raise fails.pop()
        yield {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": None}]}

    monkeypatch.setattr(reflector, "pages", pages)
    reflector.synced.set()
    task = asyncio.create_task(audit_for_ever(reflector))
    async with patience():
        while not reflector.relists:
            await wait(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_object_that_was_created_again_is_not_missed(monkeypatch):
    reflector = FakeReflector({"a": 1}, {}, watched=1)

    async def late(_seconds):
        reflector.known["a"] = 12

    monkeypatch.setattr(module.asyncio, "sleep", late)
    assert await audit(reflector) == []


async def test_it_starts_after_the_first_list_and_pauses_by_the_number_of_objects(monkeypatch, caplog):
    pauses = []
    wait = asyncio.sleep

    async def paused(seconds):
        pauses.append(seconds)
        await wait(0)

    monkeypatch.setattr(module.asyncio, "sleep", paused)
    monkeypatch.setattr(module, "SECONDS_PER_OBJECT", 1000.0)
    reflector = FakeReflector({"a": 1}, ClusterError("away"), {})
    task = asyncio.create_task(audit_for_ever(reflector))
    await wait(0.01)
    assert reflector.accepted == []
    reflector.synced.set()
    async with patience():
        while not reflector.relists:
            await wait(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "the watch missed events of 1 objects (a)" in caplog.text
    assert all(750 <= pause <= 1250 for pause in pauses if pause)
