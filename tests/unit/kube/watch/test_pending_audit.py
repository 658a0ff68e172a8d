"""The audit of pending pods adds pods that the watches have missed, and drops pods that are gone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from podwright.engine.records.log_fields import V2
from podwright.kube.watch import pending_audit
from podwright.kube.watch.pending_audit import PendingAudit
from podwright.kube.watch.selectors import MANY_NAMES
from podwright.kube.watch.unseen_names import UnseenNames
from support.engine.kit import OURS, Rig, ours
from support.http.kit import api, hangs_up, page, says, without_pauses
from support.waiting import patience


def audit_of(http, rig, names=frozenset({OURS}), unseen=None):
    return PendingAudit(http, rig.engine.pending, lambda: names, unseen or UnseenNames(lambda: rig.now))


async def test_a_pod_that_the_watch_missed_is_added():
    rig = Rig()
    rig.pod("known")
    pages = [page(ours("known"), following="more"), page(ours("missed"))]
    async with api(*pages, *pages) as (http, script):
        await audit_of(http, rig).audit()
    assert rig.counts == {"active": 2}
    first, second, third, fourth = script.requests
    assert first.query == {"fieldSelector": f"spec.nodeName=,spec.schedulerName={OURS}", "limit": "500"}
    assert second.query == {**first.query, "continue": "more"}
    assert first.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList;")
    assert [third.query, fourth.query] == [first.query, second.query]
    assert third.headers["Accept"] == "application/json"


@pytest.mark.parametrize(("at_start", "level"), [(True, V2), (False, logging.INFO)])
async def test_only_pods_that_were_missed_after_the_start_are_worth_a_line(caplog, at_start, level):
    pages = [page(ours("missed"))]
    caplog.set_level(V2)
    async with api(*pages, *pages) as (http, _):
        audit = audit_of(http, Rig())
        await (audit.audit_at_start() if at_start else audit.audit())
    assert [record.levelno for record in caplog.records if "audit: added 1" in record.message] == [level]


async def test_a_pod_that_is_no_longer_pending_is_dropped():
    rig = Rig()
    rig.pod("ghost")
    rig.pod("there")
    async with api(page(ours("there"))) as (http, _):
        await audit_of(http, rig).audit()
    assert rig.engine.queue.uids() == ["default/there"]
    assert rig.status.forgotten == ["default/ghost"]


async def test_a_pod_that_arrives_during_the_audit_stays():
    rig = Rig()

    async def meanwhile(request):
        rig.pod("new")
        return await page()(request)

    async with api(meanwhile) as (http, _):
        await audit_of(http, rig).audit()
    assert rig.counts == {"active": 1}


async def test_a_pod_that_is_being_bound_is_not_dropped():
    rig = Rig()
    rig.node("n")
    rig.pod("binding")
    rig.engine.cache.assume(rig.engine.queue.pop().pod, "n")
    async with api(page()) as (http, _):
        await audit_of(http, rig).audit()
    assert rig.placed_on("binding") == "n"
    assert rig.engine.queue.get("default/binding") is not None


async def test_an_audit_that_fails_drops_no_pod():
    rig = Rig()
    rig.pod("there")
    async with api(page(following="more"), says(410)) as (http, _):
        assert set(await audit_of(http, rig).audit()) == {OURS}
    assert rig.counts == {"active": 1}


def pod_of(name, scheduler):
    return ours(name, spec={"schedulerName": scheduler})


def by_name(**lists):
    """Answers each list by the scheduler name in its selector: pods, or a status."""

    async def answer(request):
        name = request.query["fieldSelector"].rpartition("=")[2]
        found = lists.get(name, [])
        return await (says(found) if isinstance(found, int) else page(*found))(request)

    return answer


def serving(*names):
    """A rig with a policy for each of these scheduler names, all of which are served."""
    rig = Rig()
    for name in names:
        raw = {"metadata": {"name": name, "uid": name, "generation": 1}, "spec": {"schedulerName": name}}
        assert rig.engine.policies.apply(raw).accepted
    return rig, rig.engine.policies.policy_set.scheduler_names


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_a_name_that_cannot_be_listed_does_not_stop_the_audit_of_others(status):
    rig, names = serving("a", "b", "c")
    for pod in (pod_of("there", "b"), pod_of("gone", "c")):
        rig.engine.pending.put(pod)
    unseen = UnseenNames(lambda: rig.now)
    async with api(default=by_name(a=[pod_of("missed", "a")], b=status)) as (http, _):
        failed = await audit_of(http, rig, names, unseen).audit()
    assert set(failed) == {"b"}
    assert set(rig.engine.queue.uids()) == {"default/missed", "default/there"}
    rig.now += 40
    assert unseen.problem() == f"pods of scheduler b not listed for 40 s: says {status}"


async def test_a_name_that_can_be_listed_again_or_is_no_longer_served_is_forgotten(caplog):
    rig, names = serving("a", "b")
    unseen = UnseenNames(lambda: rig.now)
    caplog.set_level("INFO")
    async with api(default=by_name(a=403, b=403)) as (http, script):
        await audit_of(http, rig, names, unseen).audit()
        await audit_of(http, rig, names, unseen).audit()
        script.default = by_name(b=403)
        await audit_of(http, rig, names, unseen).audit()
        assert unseen.problem() == "pods of scheduler b not listed for 0 s: says 403"
        await audit_of(http, rig, names - {"b"}, unseen).audit()
    assert unseen.problem() == ""
    assert caplog.text.count("cannot list pods of scheduler a") == 1
    assert "pods of scheduler a can be listed now" in caplog.text


async def test_a_list_that_fails_halfway_leaves_the_pods_of_its_name_alone():
    rig, names = serving("a")
    rig.engine.pending.put(pod_of("there", "a"))
    async with api(page(following="more"), says(410), page()) as (http, _):
        assert set(await audit_of(http, rig, names).audit()) == {"a"}
    assert rig.engine.queue.uids() == ["default/there"]


async def test_the_pods_of_many_names_are_in_one_list():
    rig, names = serving(*(f"s{index}" for index in range(MANY_NAMES)))
    rig.engine.pending.put(pod_of("gone", "s3"))
    foreign = pod_of("foreign", "other")
    pods = page(pod_of("missed", "s5"), foreign)
    async with api(pods, pods, pods) as (http, script):
        audit = audit_of(http, rig, names)
        await audit.audit()
        await audit.audit()
    assert rig.engine.queue.uids() == ["default/missed"]
    assert {request.query["fieldSelector"] for request in script.requests} == {
        "spec.nodeName=,spec.schedulerName!=default-scheduler"
    }
    assert len(script.requests) == 3, "a foreign pod was looked at once"


class TestAtTheStart:
    @pytest.fixture(autouse=True)
    def no_pauses(self, monkeypatch):
        monkeypatch.setattr(pending_audit, "START_RETRY", without_pauses(pending_audit.START_RETRY))

    @pytest.mark.parametrize("status", [400, 403, 500])
    async def test_a_name_that_cannot_be_listed_does_not_hold_up_the_start(self, monkeypatch, status):
        monkeypatch.setattr(pending_audit, "START_SECONDS", 0.05)
        rig, names = serving("a", "b")
        async with api(default=by_name(a=[pod_of("missed", "a")], b=status)) as (http, _), patience():
            await audit_of(http, rig, names).audit_at_start()
        assert rig.engine.queue.uids() == ["default/missed"]

    @pytest.mark.parametrize("down", [says(503), says(429), hangs_up()])
    async def test_the_start_waits_for_an_api_server_that_is_down(self, monkeypatch, down):
        monkeypatch.setattr(pending_audit, "START_SECONDS", 0.0)
        rig, names = serving()
        async with api(default=down) as (http, script):
            start = asyncio.create_task(audit_of(http, rig, names).audit_at_start())
            while len(script.requests) < 5:
                await asyncio.sleep(0.005)
            assert not start.done()
            script.default = page(ours("missed"))
            async with patience():
                await start
        assert rig.engine.queue.uids() == ["default/missed"]

    async def test_a_list_that_fails_once_is_repeated(self):
        rig, names = serving("a")
        async with api(says(403), default=page(pod_of("missed", "a"))) as (http, _):
            await audit_of(http, rig, names).audit_at_start()
        assert rig.engine.queue.uids() == ["default/missed"]
