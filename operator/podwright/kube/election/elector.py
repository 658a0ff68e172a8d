"""The elector: takes the Lease, renews it, and says whether this instance may write.

    standby ──Lease absent, released or expired──► leading ──no renewal within the deadline──► lost
                                                      └──SIGTERM──► released

Terms and defaults are client-go's. A standby watches the Lease, and tries when it expires or is released. A leader may write for
`renew_deadline` after the beginning of its last renewal, and not a moment longer: `check` runs right before each request that writes. Another instance
takes the Lease `lease_duration` after it has seen the last renewal, which is later. Time is CLOCK_BOOTTIME, which runs on while
the process or the machine is suspended. What was lost is not regained: the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.errors import UnreachableError, status_of
from podwright.kube.election.lease import Lease, LeaseRecord, is_conflict

log = logging.getLogger(__name__)

Clock = Callable[[], float]

RELEASED_SECONDS: Final = 1
"""The duration of a Lease that was released, as client-go writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTimes:
    """Seconds.

    `lease_duration`: after it, others take a Lease that is not renewed. `renew_deadline`: how long a leader goes on without a
    renewal. `retry_period`: the pause between two renewals, and between two tries.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class NotLeadingError(UnreachableError):
    """A request that writes was not sent, because this instance does not hold the Lease."""


def boot_time() -> float:
    """Seconds since the machine started, including those in which it slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Elector:
    """See the module. `leading` and `lost` are set once."""

    def __init__(
        self, lease: Lease, times: ElectionTimes, *, identity: str, clock: Clock = boot_time, late: Callable[[], None]
    ) -> None:
        """`late` is called when a renewal fails: requests that are under way should not outlive the deadline."""
        self.lease = lease
        self.identity = identity
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self.fence: int | None = None
        """Once leading: the resourceVersion that caches must have reached before the first decision. None: ask the API server for one."""
        self.holder = ""
        """Who holds the Lease, as far as we know."""
        self._times = times
        self._clock = clock
        self._late = late
        self._deadline = float("-inf")
        self._observed: LeaseRecord | None = None
        self._observed_at = clock()
        self._failed = False
        """Whether the last request failed, so that the next one has to wait."""

    # For requests, health and the log

    def check(self) -> None:
        """Raises NotLeadingError unless this instance may write now."""
        if not self.may_write:
            raise NotLeadingError(
                f"the Lease {self.lease} is not ours" + (f" but {self.holder}'s" if self.holder else "")
            )

    @property
    def may_write(self) -> bool:
        """Whether this instance holds the Lease, and its last renewal is recent enough."""
        return self._clock() < self._deadline

    # The life of an instance

    async def run(self) -> None:
        """Takes the Lease when that is possible, and renews it. Returns when it is lost."""
        log.info("attempting to acquire leader lease %s as %s", self.lease, self.identity)
        while not await self._try(self._take):
            await self._wait_for_chance()
        log.info("successfully acquired lease %s", self.lease)
        self.leading.set()
        while (left := self._deadline - self._clock()) > 0:
            await asyncio.sleep(min(self._times.retry_period, left))
            if not await self._try(self._renew):
                self._late()
        self._deadline = float("-inf")
        owner = f"{self.holder} holds it" if self.holder not in ("", self.identity) else "it was not renewed in time"
        log.error("leader election lost: lease %s: %s", self.lease, owner)
        self.lost.set()

    async def release(self) -> None:
        """Gives the Lease up, so that another instance need not wait until it expires. `run` must have been cancelled."""
        if not self.may_write or self._observed is None:
            return
        self._deadline = float("-inf")
        now = _timestamp()
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": RELEASED_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": self._observed.transitions,
        }
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                await self.lease.write(spec, self._observed)
        except (ClusterError, TimeoutError) as error:
            log.warning("cannot release lease %s: %s", self.lease, error or "timeout")
        else:
            log.info("released lease %s", self.lease)

    # One request to the API server

    async def _try(self, attempt: Callable[[], Awaitable[bool]]) -> bool:
        """Whether it succeeded. It may take half of the renew deadline, so that a renewal can be tried twice."""
        self._failed = True
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                done = await attempt()
        except (ClusterError, TimeoutError) as error:
            if not is_conflict(error):
                log.warning("cannot reach lease %s: %s", self.lease, error or "timeout")
            return False
        self._failed = False
        return done

    async def _take(self) -> bool:
        record = await self.lease.read()
        self._observe(record)
        if record is not None and record.holder and self._clock() < self.expires:
            return False
        self.fence = 0 if record is None else (None if record.holder else record.version)
        transitions = 0 if record is None else record.transitions + 1
        await self._write({"acquireTime": _timestamp(), "leaseTransitions": transitions}, record)
        return True

    async def _renew(self) -> bool:
        try:
            await self._write({}, self._observed)
        except ClusterError as error:
            if not is_conflict(error) and status_of(error) != 404:
                raise
            # Someone has written or deleted the Lease.
            self._observe(await self.lease.read())
            if self.holder not in ("", self.identity):
                self._deadline = float("-inf")
                return False
            await self._write({"acquireTime": _timestamp()} if self._observed is None else {}, self._observed)
        return True

    async def _write(self, spec: Mapping[str, Any], earlier: LeaseRecord | None) -> None:
        begun = self._clock()
        own = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, int(self._times.lease_duration)),
            "renewTime": _timestamp(),
            **spec,
        }
        self._observe(await self.lease.write(own, earlier))
        self._deadline = begun + self._times.renew_deadline

    # Standby

    @property
    def expires(self) -> float:
        """When the Lease that we have seen expires, on our clock, if it is not renewed."""
        return self._observed_at + (0.0 if self._observed is None else self._observed.seconds)

    def _observe(self, record: LeaseRecord | None) -> None:
        """Takes note of the Lease. Its own times are of another machine's clock, so only changes of it are timed."""
        if (record is None) != (self._observed is None) or (
            record is not None and self._observed is not None and record.version != self._observed.version
        ):
            self._observed_at = self._clock()
        holder = "" if record is None else record.holder
        if holder not in ("", self.holder, self.identity):
            log.info("new leader elected: %s", holder)
        self._observed, self.holder = record, holder

    async def _wait_for_chance(self) -> None:
        """Returns when the Lease may be free: released, deleted or expired; or after the retry period if that cannot be seen."""
        seen = False
        if not self._failed:
            try:
                async with asyncio.timeout(self._left) as expiry:
                    await self._watch(expiry)
                seen = True
            except TimeoutError:
                seen = True
            except (ClusterError, aiohttp.ClientError, OSError, ValueError, KeyError) as error:
                log.debug("cannot watch lease %s: %s", self.lease, error)
        if not seen:
            await asyncio.sleep(self._times.retry_period * random.uniform(1.0, 1.2))

    @property
    def _left(self) -> float:
        """Seconds until the Lease that we have seen expires, if it is not renewed."""
        return max(0.0, self.expires - self._clock())

    async def _watch(self, expiry: asyncio.Timeout) -> None:
        """Follows the Lease until it is free, or the server ends the watch. Each renewal moves `expiry`."""
        loop = asyncio.get_running_loop()
        async with aclosing(self.lease.changes(self._observed, self._times.lease_duration)) as changes:
            async for record in changes:
                self._observe(record)
                if not self.holder:
                    return
                expiry.reschedule(loop.time() + self._left)


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
