"""The base of writers of the statuses of our own kinds.

All statuses are compared regularly, in short steps with pauses, with what the API server has. Those that differ are
written, new conditions before new amounts, at most some in a second.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from podwright.api.scheduler_policy import created_of, identity_of
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw, mapping_at
from podwright.core.objects.times import rfc3339
from podwright.kube.client.errors import is_not_found, status_of, uid_mismatch
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, JSON_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import Resource
from podwright.kube.write.write_limit import WRITES_PER_SECOND, WriteLimit

log = logging.getLogger(__name__)

FIRST_BURST_SECONDS: Final = 10.0
STATUS_SECONDS: Final = 1.0
"""The shortest time between two comparisons of all statuses."""
SHARE: Final = 49.0
"""Each step of a comparison is followed by a pause that is this many times as long."""
MOST_WRITES: Final = 25
"""How many statuses are written at least before all are compared again, and more if the pause has time for them."""
AT_ONCE: Final = 16
"""How many statuses are compared in one step."""
_EXPECTED: Final = (403, 404, 409)
"""A namespace that ends refuses objects; an object may be there, or gone, before the watch says so."""
RETRY: Final = RetryPolicy(shortest=1.0, longest=60.0)


async def gently(names: Sequence[str], work: Callable[[str], object]) -> None:
    """Does the work for all names, in steps with pauses, so that it takes a fiftieth of the time."""
    clock = asyncio.get_running_loop().time
    for start in range(0, len(names), AT_ONCE):
        started = clock()
        for name in names[start : start + AT_ONCE]:
            work(name)
        await asyncio.sleep(SHARE * (clock() - started))


@dataclass(frozen=True, slots=True)
class Request:
    """Makes, changes or deletes an object."""

    method: str
    path: str
    body: Raw | None = None
    content_type: str = JSON
    params: Mapping[str, str] | None = None


@dataclass(slots=True)
class SeenObject:
    """An object as the API server has it. `problem`: what is wrong with this generation by itself.

    `reported`: the problem that an event was about. `warned`: the reasons of warnings that events were about. The
    status is not written before `not_before`. `written`: the status that we wrote last, and what the API server made of
    it; None if it stored the same.
    """

    uid: str
    generation: int
    spec: Any
    status: Raw
    problem: str
    created: float = 0.0
    """In seconds since the epoch."""
    reported: str = ""
    warned: frozenset[str] = frozenset()
    failures: int = 0
    not_before: float = 0.0
    written: tuple[object, object] = (None, None)


class ObjectStatuses(ABC):
    """See the module."""

    resource: Resource
    noun: ClassVar[str]
    """The name for an object in log lines."""

    def __init__(self, http: Http, *, clock: Callable[[], float], limit: WriteLimit | None = None) -> None:
        """`clock` gives seconds since the epoch. `limit`: how often statuses are written; of these alone, if None."""
        self._http = http
        self._clock = clock
        self._known: dict[str, SeenObject] = {}
        self._limit = limit or WriteLimit()
        self._most = MOST_WRITES
        """How many statuses are written, and other requests sent, before all statuses are compared again."""
        self._tries: dict[str, tuple[int, float]] = {}
        """By name of an object that is to be made or deleted: how often that was tried, and when it is tried again."""
        compact_regularly(self)

    def seen(self, name: str, raw: Raw, problem: str) -> None:
        """The object was added, or has changed. `problem`: what is wrong with it by itself."""
        _, uid, generation = identity_of(raw)
        known = SeenObject(
            uid,
            generation,
            spec=raw.get("spec"),
            status=mapping_at(raw, "status"),
            problem=problem,
            created=created_of(raw),
        )
        before = self._known.get(name)
        if before is not None and before.uid == uid:
            known.reported, known.warned, known.written = before.reported, before.warned, before.written
            if before.generation == generation:
                known.failures, known.not_before = before.failures, before.not_before
        self._known[name] = known

    def forget(self, name: str) -> None:
        """The object was deleted."""
        self._known.pop(name, None)

    @abstractmethod
    def status_of(self, name: str, seen: SeenObject, now: str) -> Raw:
        """The status of an object. `now`: an RFC 3339 time."""

    def compared(self, name: str, seen: SeenObject, status: Raw) -> None:
        """Called with each status that was computed."""

    async def prepare(self) -> None:
        """Called before all statuses are computed. Counts as a part of that."""

    def place_of(self, name: str) -> tuple[str, str]:
        """The name and the namespace of the object that is known by this name, or as namespace/name."""
        namespace, _, own = name.rpartition("/")
        return own, namespace

    async def settle(self) -> None:
        """Called after each comparison of all statuses."""

    async def carry_out(self, wanted: Mapping[str, Request]) -> None:
        """Makes, changes and deletes objects, which are wanted until the watch says that it is done: some at a time,
        and each after longer and longer pauses.
        """
        clock = asyncio.get_running_loop().time
        self._tries = {name: tries for name, tries in self._tries.items() if name in wanted}
        due = [name for name in wanted if self._tries.get(name, (0, 0.0))[1] <= clock()]
        for name in due[: self._most]:
            await self._limit.take()
            request, problem = wanted[name], None
            try:
                await self._http.call(
                    request.method, request.path, request.body, request.content_type, params=request.params
                )
            except ClusterError as error:
                problem = error
            count = self._tries.get(name, (0, 0.0))[0] + 1
            self._tries[name] = count, clock() + RETRY.pause(count, problem)
            if problem is not None and count == 1 and status_of(problem) not in _EXPECTED:
                log.info("cannot keep %s %s: %s", self.noun, name, problem)

    async def run_after(self, known: asyncio.Event, decided: asyncio.Event) -> None:
        """Does `run` once all objects are known and the pods that waited at the start are decided: until then, each of
        these changes statuses. Waits for the pods no longer than FIRST_BURST_SECONDS.
        """
        await known.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(decided.wait(), FIRST_BURST_SECONDS)
        await self.run()

    async def run(self) -> None:
        """Writes statuses until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            started, due = clock(), dict[str, Raw]()
            await self.prepare()
            await gently([*self._known], lambda name: self._compare(name, due))  # noqa: B023 -- called before the loop goes on
            # Only some at a time, so that news need not wait for all others.
            self._most = max(MOST_WRITES, int((clock() - started) * WRITES_PER_SECOND / 2))
            for name in sorted(due, key=lambda name: not self._says_news(name, due[name]))[: self._most]:
                await self._limit.take()
                await self._write(name, due[name])
            await self.settle()
            await asyncio.sleep(STATUS_SECONDS)

    def _compare(self, name: str, due: dict[str, Raw]) -> None:
        """Adds the object's status to `due` if it is to be written."""
        known = self._known.get(name)
        if known is None:
            return
        try:
            status = self.status_of(name, known, rfc3339(self._clock()))
            self.compared(name, known, status)
        except Exception:
            if not known.failures:
                log.exception("cannot tell the status of %s %s", self.noun, name)
            known.failures += 1
            return
        # The schema of another API may have dropped a part of what we wrote.
        dropped = (status, known.status) == known.written
        if status != known.status and not dropped and asyncio.get_running_loop().time() >= known.not_before:
            due[name] = status

    def _says_news(self, name: str, status: Raw) -> bool:
        known = self._known.get(name)
        return known is not None and status.get("conditions") != known.status.get("conditions")

    async def _write(self, name: str, status: Raw) -> None:
        known = self._known.get(name)
        if known is None:
            return
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": known.uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        try:
            path = self.resource.path(*self.place_of(name), subresource="status")
            answer = await self._http.call("PATCH", path, patch, JSON_PATCH)
        except (ClusterError, TypeError) as error:  # a TypeError if something in it cannot be written as JSON
            known.failures += 1
            known.not_before = asyncio.get_running_loop().time() + RETRY.pause(known.failures, error)
            if known.failures == 1 and not is_not_found(error) and not uid_mismatch(error):
                log.warning("cannot write the status of %s %s: %s", self.noun, name, error)
        else:
            known.failures, known.status = 0, status
            newest = self._known.get(name, known)  # the watch may have been faster
            kept = answer.get("status") if isinstance(answer, Mapping) else None
            newest.written = (None, None) if kept == status else (status, kept)
            if name in self._known:
                self._known[name] = self._known.pop(name)  # the others come first now
