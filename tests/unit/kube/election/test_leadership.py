"""Leadership in the runtime: what a standby may send, and what a new leader waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from prometheus_client import generate_latest

from podwright.api.configuration.schema import LeaderElection
from podwright.engine.records.metrics import Metrics
from podwright.kube.client.http import Http
from podwright.kube.election.elector import NotLeadingError
from podwright.kube.election.leadership import Leadership
from podwright.kube.kinds import NODE
from support.http.kit import page, says, served, source_of
from support.waiting import patience

ELECTED = LeaderElection(leader_elect=True, resource_name="podwright", resource_namespace="ns")
WRITE = "/api/v1/namespaces/default/pods/p/binding"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Caches:
    def __init__(self):
        self.reached = []

    async def reach(self, version):
        self.reached.append(version)


@asynccontextmanager
async def serving(*answers, **options):
    async with served(*answers, **options) as (url, script):
        http = Http(source_of(url))
        try:
            yield source_of(url), http, script
        finally:
            await http.close()


def lease(holder="", version=7, seconds=1):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    return {"metadata": {"name": "podwright", "namespace": "ns", "resourceVersion": str(version)}, "spec": spec}


async def test_without_leader_election_everything_may_be_written_at_once():
    async with serving() as (source, _http, script):
        leadership = Leadership(LeaderElection(leader_elect=False), source, identity="a", metrics=Metrics(monotonic))
        caches = Caches()
        assert leadership.before_write is None
        await leadership.wait_until_leading()
        await leadership.wait_until_current(caches)
        assert (caches.reached, script.requests) == ([], [])
        assert leadership.state() == ""


async def test_a_standby_may_send_nothing_but_reviews():
    async with serving() as (source, _http, _script):
        leadership = Leadership(ELECTED, source, identity="a", metrics=Metrics(monotonic))
        with pytest.raises(NotLeadingError, match="ns/podwright is not ours"):
            leadership.before_write(WRITE)
        with pytest.raises(NotLeadingError):
            leadership.before_write(EVENTS)
        leadership.before_write("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        leadership.before_write("/apis/authentication.k8s.io/v1/tokenreviews")
        assert leadership.state() == "standing by; lease ns/podwright is held by nobody"
        await leadership.release()
        await leadership.close()


@pytest.mark.parametrize("before", [lease(), lease("crashed", 7, seconds=0)], ids=["released", "expired"])
async def test_a_new_leader_waits_for_a_version_that_the_api_server_names_then(before):
    answers = says(200, before), says(200, lease("a", 8)), page(version=50)
    async with serving(*answers, default=says(200, lease("a", 9))) as (source, _http, script):
        leadership, caches = Leadership(ELECTED, source, identity="a", metrics=Metrics(monotonic)), Caches()
        running = asyncio.create_task(leadership.run())
        await leadership.wait_until_leading()
        leadership.before_write(WRITE)
        assert leadership.state() == "leading by lease ns/podwright; its caches are not current yet"
        await leadership.wait_until_current(caches)
        assert caches.reached == [50]
        asked = script.requests[2]
        assert (asked.path, asked.query) == (NODE.collection, {"limit": "1"})
        assert leadership.state() == "leading by lease ns/podwright"
        running.cancel()
        await leadership.release()
        assert script.requests[-1].method == "PUT"
        with pytest.raises(NotLeadingError):
            leadership.before_write(WRITE)
        leadership.before_write(EVENTS)
        await leadership.close()


async def test_metrics_say_who_leads_and_which_renewals_had_to_read_the_lease():
    metrics = Metrics(monotonic)
    status = lambda: metrics.registry.get_sample_value("leader_election_master_status", {"name": "podwright"})
    slow = lambda: metrics.registry.get_sample_value("leader_election_slowpath_total", {"name": "podwright"})
    fast = LeaderElection(leader_elect=True, resource_name="podwright", resource_namespace="ns", retry_period="10ms")
    answers = says(404), says(200, lease("a", 8)), page(version=50), says(409), says(200, lease("a", 9))
    async with serving(*answers, default=says(200, lease("a", 10))) as (source, _http, _script):
        leadership = Leadership(fast, source, identity="a", metrics=metrics)
        assert (status(), slow()) == (0, None)
        running = asyncio.create_task(leadership.run())
        await leadership.wait_until_leading()
        async with patience():
            while slow() is None:
                await asyncio.sleep(0.01)
        assert (status(), slow()) == (1, 1)
        running.cancel()
        await leadership.release()
        await leadership.close()
        assert status() == 0


async def test_without_leader_election_there_is_no_status_to_scrape():
    metrics = Metrics(monotonic)
    async with serving() as (source, _http, _script):
        Leadership(LeaderElection(leader_elect=False), source, identity="a", metrics=metrics)
    assert "leader_election_master_status{" not in generate_latest(metrics.registry).decode()


async def test_the_lease_is_kept_until_it_expires_if_a_write_may_be_under_way():
    answers = says(404), says(200, lease("a", 8)), page(version=50)
    async with serving(*answers, default=says(200, lease("a", 9))) as (source, _http, script):
        leadership = Leadership(ELECTED, source, identity="a", metrics=Metrics(monotonic))
        running = asyncio.create_task(leadership.run())
        await leadership.wait_until_current(Caches())
        running.cancel()
        await leadership.close()
        assert [request.method for request in script.requests] == ["GET", "POST", "GET"]


async def test_a_standby_says_why_it_cannot_lead():
    async with serving(default=says(403)) as (source, _http, _script):
        leadership = Leadership(ELECTED, source, identity="a", metrics=Metrics(monotonic))
        running = asyncio.create_task(leadership.run())
        async with patience():
            while "the last request for it failed" not in leadership.state():
                await asyncio.sleep(0.01)
        running.cancel()
        await leadership.release()
        await leadership.close()
