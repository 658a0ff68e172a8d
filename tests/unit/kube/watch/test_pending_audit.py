"""The audit of pending pods adds pods that the watches have missed, and drops pods that are gone."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.kube.watch.pending_audit import PendingAudit
from support.engine.kit import OURS, Rig, ours
from support.http.kit import api, page, says


def audit_of(http, rig):
    return PendingAudit(http, rig.engine.pending, lambda: [OURS])


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
        with pytest.raises(ClusterError):
            await audit_of(http, rig).audit()
    assert rig.counts == {"active": 1}
