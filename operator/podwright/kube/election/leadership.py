"""True if this process decides: with leader election, only while it holds the Lease; without it, always.

A takeover is fenced. The former leader's last Bindings may not have reached our caches when we get the Lease, and a
node would be filled twice (kubernetes/kubernetes#137308). So before the first decision the caches must have reached a
resourceVersion that the API server named after we got the Lease.

Requests that a leader sent right before its deadline, and that the network delays by more than `lease_duration` minus
`renew_deadline`, are not fenced: they could arrive after the takeover. A Binding of a pod that has a node by then
fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from podwright.api.configuration.schema import LeaderElection
from podwright.engine.records.log_fields import EACH_TIME
from podwright.engine.records.metrics import LEADER_ELECTION_SLOW_PATH, LEADER_ELECTION_STATUS, Metrics
from podwright.kube.client.credentials.credentials import CredentialSource
from podwright.kube.client.http import Http
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.election.elector import ElectionTimes, Elector
from podwright.kube.election.lease import Lease
from podwright.kube.kinds import NODE

log = logging.getLogger(__name__)

_REVIEWS: Final = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""Requests that change nothing, though they are not GETs."""
_EVENTS: Final = "/apis/events.k8s.io/"
"""Requests that no other instance depends on."""


class Reaching(Protocol):
    """Caches that can tell when they have reached a resourceVersion."""

    async def reach(self, version: int) -> None: ...


class Leadership:
    """See the module."""

    def __init__(self, settings: LeaderElection, source: CredentialSource, *, identity: str, metrics: Metrics) -> None:
        """`identity`: the name of this process. No other process may have the same."""
        self.lost = asyncio.Event()
        """Set when the Lease is lost. The process must end then: it may write nothing more."""
        self._protected: Http | None = None
        self._resets: set[asyncio.Task[None]] = set()
        self._fence: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._current = self._released = False
        self._elector: Elector | None = None
        if settings.leader_elect:
            # The Lease has connections of its own: a burst of Bindings must not delay its renewal.
            self._http = Http(source)
            times = ElectionTimes(
                lease_duration=settings.seconds("lease_duration"),
                renew_deadline=settings.seconds("renew_deadline"),
                retry_period=settings.seconds("retry_period"),
            )
            lease = Lease(self._http, namespace=settings.resource_namespace, name=settings.resource_name)
            slow_path = partial(metrics.count, LEADER_ELECTION_SLOW_PATH, lease.name)
            elector = Elector(lease, times, identity=identity, late=self._reset, slow_path=slow_path)
            metrics.compute(LEADER_ELECTION_STATUS, lambda: {(lease.name,): elector.may_write})
            self._elector = elector

    @property
    def elected(self) -> bool:
        """True if there is leader election."""
        return self._elector is not None

    @property
    def may_write(self) -> bool:
        """True if this process leads now, or there is no leader election."""
        return self._elector is None or self._elector.may_write

    @property
    def lease(self) -> Lease | None:
        """The Lease by which the leader is elected; None without leader election."""
        return None if self._elector is None else self._elector.lease

    @property
    def before_write(self) -> Callable[[str], None] | None:
        """The function to be called with the path right before each request that is not a GET. It raises
        NotLeadingError.
        """
        elector = self._elector
        if elector is None:
            return None

        def check(path: str) -> None:
            if not path.startswith((*_REVIEWS, _EVENTS) if self._released else _REVIEWS):
                elector.check()

        return check

    def protect(self, http: Http) -> None:
        """Closes the connections of this client when a renewal fails: no request that is under way may outlive the
        deadline.
        """
        self._protected = http

    def _reset(self) -> None:
        if self._protected is not None:
            task = asyncio.create_task(self._protected.reset(), name="podwright reset of connections")
            self._resets.add(task)
            task.add_done_callback(self._resets.discard)

    async def run(self) -> None:
        """Takes the Lease and renews it until the task is cancelled."""
        if self._elector is not None:
            async with asyncio.TaskGroup() as tasks:
                asking = tasks.create_task(self._ask_for_fence(self._elector), name="podwright fence")
                await self._elector.run()
                asking.cancel()
            self.lost.set()
        await asyncio.Event().wait()

    async def _ask_for_fence(self, elector: Elector) -> None:
        """Right away: at the start, lists that begin later than this have passed the fence already."""
        await elector.leading.wait()
        node = await retry_until_answered(
            "the API server", lambda: self._http.call("GET", NODE.collection, params={"limit": "1"})
        )
        if not self._fence.done():  # the task may be restarted
            self._fence.set_result(resource_version(node))

    async def wait_until_standing_by(self) -> None:
        """Returns when another instance leads at the start. Never, if this one leads at once."""
        await (asyncio.Event() if self._elector is None else self._elector.standing_by).wait()

    async def wait_until_leading(self) -> None:
        """Returns when this process holds the Lease."""
        if self._elector is not None:
            await self._elector.leading.wait()

    async def wait_until_current(self, caches: Reaching) -> None:
        """Returns when this process leads, and the caches have everything that the former leader wrote."""
        if self._elector is None:
            return
        version = await asyncio.shield(self._fence)
        await caches.reach(version)
        self._current = True
        log.info("caches have reached resource version %d; this instance decides now", version, extra=EACH_TIME)

    def state(self) -> str:
        """For people: whether this process leads, or who does. Empty without leader election."""
        elector = self._elector
        if elector is None:
            return ""
        if elector.may_write:
            return f"leading by lease {elector.lease}" + ("" if self._current else "; its caches are not current yet")
        problem = f"; the last request for it failed: {elector.problem}" if elector.problem else ""
        return f"standing by; lease {elector.lease} is held by {elector.holder or 'nobody'}{problem}"

    async def release(self) -> None:
        """Gives the Lease up. No write may be under way, and `run` must have been cancelled. From now on only events
        may be written.
        """
        if self._elector is not None:
            await self._elector.release()
            self._released = True

    async def close(self) -> None:
        """Closes the connections for the Lease. Called last."""
        if self._elector is not None:
            await self._http.close()
