"""Pods of scheduler names that a policy has just begun to serve are listed once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.kube.background import BackgroundTasks
from podwright.kube.watch import newly_served
from podwright.kube.watch.newly_served import DEFAULT_SCHEDULER_WATCH, NewlyServedNames
from podwright.kube.watch.selectors import MANY_NAMES
from podwright.kube.watch.unseen_names import UnseenNames
from podwright.kube.watch.watches import Watches
from support.http.kit import api, forever, page, says, streams, without_pauses
from support.waiting import PATIENCE_SECONDS, until


class Any:
    """Contains everything."""

    def __contains__(self, _name):
        return True


ANY = Any()


class Pending:
    """An intake of pending pods."""

    def __init__(self):
        self.names = []

    def key(self, raw):
        return raw["metadata"]["uid"]

    def put(self, raw):
        self.names.append(raw["metadata"]["name"])

    def drop(self, key, raw):
        raise AssertionError(key)


def raw_pod(name):
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(newly_served, "RETRY", without_pauses(newly_served.RETRY))


@asynccontextmanager
async def serving(*answers, default=None, served=ANY):
    pending, tasks = Pending(), BackgroundTasks()
    async with api(*answers, default=default) as (http, script):
        watches = Watches(http, tasks.start)
        names = NewlyServedNames(
            http, watches, pending=pending, serves=served.__contains__, unseen=UnseenNames(lambda: 0.0)
        )
        tasks.start("newly served names", names.run)
        try:
            yield names, pending, watches, script
        finally:
            await tasks.stop()


def selectors(script):
    return [request.query.get("fieldSelector") for request in script.requests if "watch" not in request.query]


async def test_the_pods_of_each_name_are_listed():
    async with serving(page(raw_pod("a")), page(raw_pod("b"))) as (names, pending, _, script):
        names.add(["one", "two"])
        await until(lambda: pending.names == ["a", "b"])
        assert selectors(script) == [f"spec.nodeName=,spec.schedulerName={name}" for name in ("one", "two")]


async def test_a_failed_list_is_retried(caplog):
    async with serving(*[says(403)] * 3, page(raw_pod("a"))) as (names, pending, *_):
        names.add(["one"])
        await until(lambda: pending.names == ["a"])
    assert "pods of scheduler one" in caplog.text


async def test_cleared_names_are_not_listed():
    async with serving(page(raw_pod("b"))) as (names, pending, _, script):
        names.add(["one"])
        names.clear()
        names.add(["two"])
        await until(lambda: pending.names == ["b"])
        assert selectors(script) == ["spec.nodeName=,spec.schedulerName=two"]


async def test_pods_of_the_default_scheduler_are_watched_from_then_on():
    answers = (page(raw_pod("a"), version=1), streams(then=forever), page(raw_pod("b")))
    async with serving(*answers) as (names, pending, watches, script):
        names.add(["default-scheduler"])
        await until(lambda: pending.names == ["a"] and len(script.requests) == 2)  # the list, and the watch
        assert DEFAULT_SCHEDULER_WATCH in watches
        assert watches.knows("a")
        names.add(["default-scheduler"])
        await until(lambda: pending.names == ["a", "b"])


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_a_name_that_cannot_be_listed_does_not_delay_the_others(status):
    async def answer(request):
        name = request.query["fieldSelector"].rpartition("=")[2]
        return await (says(status) if name == "bad" else page(raw_pod(name)))(request)

    async with serving(default=answer) as (names, pending, *_):
        names.add(["bad", "one", "two"])
        await until(lambda: pending.names == ["one", "two"])


async def test_a_name_that_is_no_longer_served_is_not_tried_again():
    async with serving(says(403), default=page(raw_pod("b")), served={"two"}) as (names, pending, _, script):
        names.add(["one"])
        await until(lambda: script.requests)
        names.add(["two"])
        await until(lambda: pending.names == ["b"])
        assert selectors(script) == [f"spec.nodeName=,spec.schedulerName={name}" for name in ("one", "two")]


async def test_the_pods_of_many_names_are_listed_at_once():
    async with serving(default=page(raw_pod("a"))) as (names, pending, _, script):
        names.add(f"s{index}" for index in range(MANY_NAMES + 1))
        await until(lambda: pending.names == ["a"])
        assert selectors(script) == ["spec.nodeName=,spec.schedulerName!=default-scheduler"]


async def test_a_refused_watch_of_the_default_scheduler_is_not_waited_for():
    async with serving(default=says(403)) as (names, _, watches, script):
        names.add(["default-scheduler"])
        await until(lambda: script.requests)
        assert (watches.missing(), watches.missing(required=False)) == ([], [DEFAULT_SCHEDULER_WATCH])
        await asyncio.wait_for(watches.wait_until_synced(), PATIENCE_SECONDS)
