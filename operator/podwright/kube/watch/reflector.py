"""A reflector: keeps somebody's picture of one kind true, by a list in pages and a watch that never ends.

What it guarantees to its sink: every object that the API server has is `put` at least once, and every one that is gone is
`drop`ped, also those that vanished while we were not looking (after 410 a new list is compared with what was known). What a watch
failed to tell is found out by an audit now and then (`watch_audit`), and made good by a new list. A body is handed over and not
kept. The sink's errors are the sink's: it must not raise.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import aiohttp
import orjson

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.errors import ApiError, is_expired, status_of
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import Resource
from podwright.kube.watch.audit import audit_for_ever, version_of

log = logging.getLogger(__name__)

PAGE: Final = 500
WATCH_SECONDS: Final = (300, 600)
"""How long one watch request lasts: a random time within, as in client-go."""
SILENCE_SECONDS: Final = 80.0
"""Bookmarks come about every minute, but not to a kind that has not moved since the watch began: after that long we ask."""
_REARM_SECONDS: Final = 1.0
"""The end of the silence is put off at most that often."""
_NOBODY: Final = "nobody"
"""A name to ask for where only the version of the answer counts."""
RETRY: Final = RetryPolicy(shortest=0.05, longest=5.0, jitter=(0.5, 1.5))
QUICK_END_SECONDS: Final = 1.0
"""A watch that ends sooner, and in order, is answered with a pause like a failure."""


class Sink(Protocol):
    """Who takes the objects in."""

    def key(self, raw: Mapping[str, Any]) -> str:
        """What identifies the object; a uid where one of the same name must not pass for it."""

    def put(self, raw: Mapping[str, Any]) -> None:
        """The object is there, or changed."""

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        """The object is gone, or no longer selected. `raw` as it was last, where the server said so."""


@runtime_checkable
class Holding(Sink, Protocol):
    """A sink that is also told of objects by others than its reflector."""

    def held(self) -> set[str]:
        """The keys of all objects that it takes to be there."""


class Reflector:
    """See the module. `run` never returns; `synced` is set once the first list has been handed over."""

    def __init__(
        self,
        http: Http,
        resource: Resource,
        sink: Sink,
        *,
        field_selector: str = "",
        label_selector: str = "",
        below: Callable[[int], int] = random.randrange,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.lists = 0
        self._http = http
        self._sink = sink
        self._below = below
        self._doubted = False
        self._reading: asyncio.Timeout | None = None
        self.known: dict[str, int] = {}
        """The version of each object, by its key; 0 where it is no number."""
        self.departed: set[str] | None = None
        """What was deleted, while an audit wants to know."""
        self._left_out: set[str] = set()
        self._version = ""
        self._rest = b""
        """The beginning of an event whose end has not come."""
        self._failures = 0
        self._selectors = {
            name: value
            for name, value in (("fieldSelector", field_selector), ("labelSelector", label_selector))
            if value
        }

    async def run(self) -> None:
        """Lists and watches until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(audit_for_ever(self), name=f"podwright audit of {self.resource.plural}")
            await self._follow()

    def doubt(self) -> None:
        """The watch has not told all: there is to be a new list."""
        self._doubted = True
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(0.0)

    @property
    def version(self) -> int:
        """Up to which version the watch has told what happened; 0 if that is not known."""
        return int(self._version) if self._version.isdecimal() else 0

    def held(self) -> set[str]:
        """The keys of all objects that are taken to be there."""
        return {*self.known, *(self._sink.held() if isinstance(self._sink, Holding) else ())}

    async def _follow(self) -> None:
        while True:
            try:
                if self._doubted or not self._version:
                    await self._list()
                if not await self._watch():
                    await self._pause()
            except (ClusterError, aiohttp.ClientError, TimeoutError, OSError) as error:
                await self._recover(error)

    async def _recover(self, error: BaseException) -> None:
        where = self.resource.collection
        if status_of(error) in (400, 404, 410):
            self._version = ""
        if is_expired(error):
            log.info("%s: the resource version is too old, listing again", where)
        else:
            # The first may be any restart of the server; the second says that it lasts, and is said once.
            level = {0: logging.INFO, 1: logging.WARNING}.get(self._failures, logging.DEBUG)
            log.log(level, "%s: %s; trying again", where, error or type(error).__name__)
        await self._pause(error)

    async def _pause(self, error: BaseException | None = None) -> None:
        self._failures += 1
        await asyncio.sleep(RETRY.pause(self._failures, error))

    async def _list(self) -> None:
        """All objects, page by page; what was known and did not come is dropped.

        The server makes the next page while we take in the one before.
        """
        seen: set[str] = set()
        before = self.held()
        asked = self._ask("")
        try:
            while True:
                page = await asked
                following = page["metadata"].get("continue")
                if following:
                    asked = self._ask(following)
                    await asyncio.sleep(0)  # the request goes out first
                self._take_in(page, seen)
                if not following:
                    break
        finally:
            asked.cancel()
        for key in before - seen:
            self.known.pop(key, None)
            self._sink.drop(key, None)
        self._version = page["metadata"]["resourceVersion"]
        self._doubted = False
        self.lists += 1
        self.synced.set()

    def _ask(self, following: str) -> asyncio.Task[Any]:
        return asyncio.create_task(self.page(following), name="podwright list")

    async def page(self, following: str, accept: str = JSON) -> Any:
        """One page of the list, from the token of the one before. Raises ClusterError."""
        params = {**self._selectors, "limit": str(PAGE), **({"continue": following} if following else {})}
        return await self._http.call_with_retries("GET", self.resource.collection, params=params, accept=accept)

    def key(self, raw: Mapping[str, Any]) -> str:
        """As the sink tells objects apart."""
        return self._sink.key(raw)

    def _take_in(self, page: Mapping[str, Any], seen: set[str]) -> None:
        for raw in page.get("items") or ():
            try:
                seen.add(self._take(raw))
            except (KeyError, TypeError, AttributeError) as error:
                self._leave_out(raw, error)

    def _leave_out(self, raw: object, error: Exception) -> None:
        """Without a name it cannot be told from others of its like, so only the first is told of."""
        problem = repr(error)
        if problem not in self._left_out:
            self._left_out.add(problem)
            found = str(raw)[:200]
            log.error("%s: an item without usable metadata, left out: %s: %s", self.resource.collection, problem, found)

    def _recovered(self) -> None:
        if self._failures > 1:
            log.info("%s: watching again", self.resource.collection)
        self._failures = 0

    async def _watch(self) -> bool:
        """Until it ends; whether it lasted."""
        clock = asyncio.get_running_loop().time
        shortest, longest = WATCH_SECONDS
        params = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(shortest + self._below(longest - shortest)),
        }
        self._rest = b""
        async with self._http.stream(self.resource.collection, params) as response:
            opened = clock()
            try:
                while not self._doubted and not await self._read(response):
                    if not self._doubted and await self._missed_something():
                        raise TimeoutError(f"nothing came for {SILENCE_SECONDS:g} s")
            finally:
                lasted = clock() >= opened + QUICK_END_SECONDS
                if lasted:
                    self._recovered()
        return lasted

    async def _read(self, response: aiohttp.ClientResponse) -> bool:
        """Takes in what comes. True at the end of the watch, False after a silence: it can be read on then."""
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(SILENCE_SECONDS) as limit:
                self._reading, armed = limit, clock()
                async for chunk in response.content.iter_any():
                    if not self._doubted and clock() > armed + _REARM_SECONDS:
                        armed = clock()
                        limit.reschedule(armed + SILENCE_SECONDS)
                    self._events(chunk)
        except TimeoutError:
            if limit.expired():
                return False
            raise
        finally:
            self._reading = None
        return True

    async def _missed_something(self) -> bool:
        """Whether the API server's cache of this kind is ahead of us. Raises as `call` does.

        It keeps a bookmark back while it has nothing newer than the version that the watch began with, so silence alone says
        nothing. True also where versions are no numbers.
        """
        params = {"resourceVersion": "0", "fieldSelector": f"metadata.name={_NOBODY}"}
        page = await self._http.call("GET", self.resource.collection, params=params)
        theirs = version_of(page)
        return not theirs or theirs > self.version

    def _events(self, chunk: bytes) -> None:
        lines = (self._rest + chunk if self._rest else chunk).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line:
                self._event(line)

    def _event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, raw = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(int(raw.get("code") or 500), str(raw.get("reason", "")), str(raw.get("message", "")))
            self._version = raw["metadata"]["resourceVersion"]
            if self._failures:
                self._recovered()
            if kind == "DELETED":
                key = self._sink.key(raw)
                self.known.pop(key, None)
                if not self.known:
                    self.known.clear()  # an empty dict keeps the room that a burst took
                if self.departed is not None:
                    self.departed.add(key)
                self._sink.drop(key, raw)
            elif kind != "BOOKMARK":
                self._take(raw)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            # What cannot even be told apart is made good by a new list.
            raise ApiError(410, "Expired", f"a watch event that is none: {error!r}: {line[:200]!r}") from error

    def _take(self, raw: Mapping[str, Any]) -> str:
        key = self._sink.key(raw)
        self.known[key] = version_of(raw)
        self._sink.put(raw)
        return key
