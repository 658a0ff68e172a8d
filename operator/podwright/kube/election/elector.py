"""The elector: takes the Lease, renews it, and says whether this instance may write.

    standby ──Lease absent, released or expired──► leading ──no renewal within the deadline──► lost
                                                      └──SIGTERM──► released

Terms and defaults are client-go's. A standby watches the Lease, and tries when it expires or is released. A Lease that
was deleted is free only when its last holder's time is over, because that holder may not know yet. A leader may write
for `renew_deadline` after the beginning of its last renewal, and not a moment longer: `check` runs right before each
request that writes. Another instance takes the Lease `lease_duration` after it has seen the last renewal, which is
later. Time is CLOCK_BOOTTIME, which runs on while the process or the machine is suspended. A Lease that was lost is not
taken again: the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.times import rfc3339_micro
from podwright.engine.records.log_fields import EACH_TIME, V6
from podwright.kube.client.errors import UnreachableError, is_conflict, is_not_found
from podwright.kube.election.lease import Lease, LeaseRecord

log = logging.getLogger(__name__)

Clock = Callable[[], float]

RELEASED_SECONDS: Final = 1
"""The duration of a Lease that was released, as client-go writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTimes:
    """Seconds.

    `lease_duration`: after it, others take a Lease that is not renewed. `renew_deadline`: how long a leader goes on
    without a renewal. `retry_period`: the pause between two renewals, and between two tries.
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
        self,
        lease: Lease,
        times: ElectionTimes,
        *,
        identity: str,
        clock: Clock = boot_time,
        late: Callable[[], None],
        slow_path: Callable[[], None],
    ) -> None:
        """`late` is called when a renewal fails and at the deadline: it must end all requests in progress.

        `slow_path` is called when a renewal has to read the Lease first, because someone else has written or deleted
        it.
        """
        self.lease = lease
        self.identity = identity
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self.holder = ""
        """The holder of the Lease, as far as known."""
        self.problem = ""
        """Why the last request failed; empty if it did not."""
        self.standing_by = asyncio.Event()
        """Set when the first try did not get the Lease."""
        self._times = times
        self._clock = clock
        self._late = late
        self._slow_path = slow_path
        self._deadline = float("-inf")
        self._observed: LeaseRecord | None = None
        self._followed = False
        """True if a watch has just shown that the Lease is free, so that it need not be read."""
        self._taken_until = float("-inf")
        """Until when the last holder that we have seen may write, on our clock. It does not matter that the Lease was
        deleted or edited.
        """

    # For requests, health and the log

    def check(self) -> None:
        """Raises NotLeadingError unless this instance may write now."""
        if not self.may_write:
            raise NotLeadingError(
                f"the Lease {self.lease} is not ours" + (f" but {self.holder}'s" if self.holder else "")
            )

    @property
    def may_write(self) -> bool:
        """True if this instance holds the Lease, and its last renewal is recent enough."""
        return self._clock() < self._deadline

    # The life of an instance

    async def run(self) -> None:
        """Takes the Lease when that is possible, and renews it. Returns when it is lost."""
        log.info("attempting to acquire leader lease %s as %s", self.lease, self.identity, extra=EACH_TIME)
        while not await self._try(self._take, self._times.renew_deadline / 2):
            self.standing_by.set()
            await self._wait_for_chance()
        log.info("successfully acquired lease %s", self.lease, extra=EACH_TIME)
        self.leading.set()
        while (left := self._left_to_write) > 0:
            await asyncio.sleep(min(self._times.retry_period, left))
            # A renewal can be tried twice within the deadline.
            if not await self._try(self._renew, min(self._times.renew_deadline / 2, self._left_to_write)):
                self._late()
        self._deadline = float("-inf")
        owner = f"{self.holder} holds it" if self.holder not in ("", self.identity) else "it was not renewed in time"
        log.error("leader election lost: lease %s: %s", self.lease, owner, extra=EACH_TIME)
        self.lost.set()

    async def release(self) -> None:
        """Gives the Lease up, so that another instance need not wait until it expires.

        `run` must have been cancelled, and no write may be under way.
        """
        if self.may_write:
            self._deadline = float("-inf")
            if await self._try(self._give_up, self._times.renew_deadline / 2):
                log.info("released lease %s", self.lease, extra=EACH_TIME)

    # One request to the API server, or two

    async def _try(self, attempt: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Tries once to take or renew the Lease. Returns whether that succeeded within this many seconds."""
        try:
            async with asyncio.timeout(seconds):
                done = await attempt()
        except (ClusterError, TimeoutError) as error:
            problem = str(error) or "no answer in time"
            if not is_conflict(error):
                log.warning("cannot reach lease %s: %s", self.lease, problem)
            self.problem = problem
            return False
        self.problem = ""
        return done

    async def _take(self) -> bool:
        followed, self._followed = self._followed, False
        if followed:
            try:
                return await self._take_if_free(self._observed)
            except ClusterError as error:
                if not is_conflict(error) and not is_not_found(error):
                    raise  # else someone has written since then
        record = await self.lease.read()
        self._observe(record)
        return await self._take_if_free(record)

    async def _take_if_free(self, record: LeaseRecord | None) -> bool:
        ours = self.holder == self.identity  # the answer to our last try was lost
        if not ours and self._clock() < self._taken_until:
            return False
        transitions = 0 if record is None else record.transitions + (not ours)
        await self._write({"acquireTime": rfc3339_micro(time.time()), "leaseTransitions": transitions}, record)
        return True

    async def _renew(self) -> bool:
        try:
            await self._write({}, self._observed)
        except ClusterError as error:
            if not is_conflict(error) and not is_not_found(error):
                raise
            self._observe(await self.lease.read())
            if self.holder not in ("", self.identity):
                self._deadline = float("-inf")
                return False
            what = "deleted" if self._observed is None else "changed"
            log.warning("someone has %s lease %s, which is ours; writing it again", what, self.lease)
            self._slow_path()
            await self._write(
                {"acquireTime": rfc3339_micro(time.time())} if self._observed is None else {}, self._observed
            )
        return True

    async def _give_up(self) -> bool:
        now = rfc3339_micro(time.time())
        spec = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS, "acquireTime": now, "renewTime": now}
        record = self._observed
        while record is not None and record.holder == self.identity:
            try:
                await self.lease.write(spec, record)
            except ClusterError as error:
                # A renewal that was cancelled can have been carried out, or be carried out between two requests.
                if not is_conflict(error) and not is_not_found(error):
                    raise
            else:
                break
            record = await self.lease.read()
        return True

    async def _write(self, spec: Mapping[str, Any], earlier: LeaseRecord | None) -> None:
        begun = self._clock()
        own = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._times.lease_duration),
            "renewTime": rfc3339_micro(time.time()),
            **spec,
        }
        self._observe(await self.lease.write(own, earlier))
        self._deadline = begun + self._times.renew_deadline

    @property
    def _left_to_write(self) -> float:
        return max(0.0, self._deadline - self._clock())

    # Standby

    def _observe(self, record: LeaseRecord | None) -> None:
        """Takes note of the Lease. Its own times are of another machine's clock, so only changes of it are timed."""
        changed = record is not None and (self._observed is None or record.version != self._observed.version)
        before, self.holder = self.holder, "" if record is None else record.holder
        self._observed = record
        if record is None or not changed or self.holder == self.identity:
            return
        if self.holder:
            if self.holder != before:
                log.info("new leader elected: %s", self.holder, extra=EACH_TIME)
            self._taken_until = self._clock() + record.seconds
        elif record.seconds <= RELEASED_SECONDS:
            self._taken_until = float("-inf")  # released by its holder, which writes nothing more

    async def _wait_for_chance(self) -> None:
        """Returns when the Lease may be free: released or expired; or after the retry period if that cannot be seen."""
        loop = asyncio.get_running_loop()
        begun, seen = loop.time(), False
        if not self.problem:
            try:
                async with asyncio.timeout(self._left_to_wait) as expiry:
                    self._followed = seen = await self._watch(expiry)
            except TimeoutError:
                self._followed = seen = True
            except (ClusterError, OSError, ValueError, KeyError) as error:
                log.log(V6, "cannot watch lease %s: %s", self.lease, error)
        if not seen and self._left_to_wait > 0:
            pause = self._times.retry_period * random.uniform(1.0, 1.2)
            await asyncio.sleep(max(0.0, min(pause, begun + pause - loop.time())))
        elif self.problem:
            await asyncio.sleep(self._times.retry_period * random.uniform(1.0, 1.2))

    @property
    def _left_to_wait(self) -> float:
        """Seconds until the last holder may write no more, if it does not renew."""
        return max(0.0, self._taken_until - self._clock())

    async def _watch(self, expiry: asyncio.Timeout) -> bool:
        """Follows the Lease until it is free. False if the server ends the watch first. Each renewal moves `expiry`."""
        loop = asyncio.get_running_loop()
        async with aclosing(self.lease.changes(self._observed, self._times.lease_duration)) as changes:
            async for record in changes:
                self._observe(record)
                left = self._left_to_wait
                if left <= 0:
                    return True
                expiry.reschedule(loop.time() + left)
        return False
