"""A reflector, as in client-go: keeps a sink's view of one kind current with a list in pages and an endless watch.

It guarantees to its sink that every object the API server has is `put` at least once, and that every object that is
gone is `drop`ped, also one that vanished while no watch was open: after a 410 a new list is compared with the known
objects. Audits (`audit`) find events that a watch has missed, and trigger a relist. The reflector keeps keys and
versions, never bodies. A sink must not raise.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodText
from podwright.core.objects.versions import version_number
from podwright.engine.records.log_fields import V2, V6
from podwright.kube.client.errors import ApiError, is_expired, status_of
from podwright.kube.client.http import Http
from podwright.kube.client.json_text import loads
from podwright.kube.client.list_text import loads_page, loads_pod_event, loads_pods
from podwright.kube.client.media_types import JSON
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.client.pages import list_pages, objects_of
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import Resource
from podwright.kube.watch.audit import audit_for_ever, compared_with_list

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = (300, 600)
"""How long one watch request lasts: a random time within, as in client-go."""
SILENCE_SECONDS: Final = 80.0
"""After this long without data the server is asked whether it has moved on. Bookmarks come about every minute, but not
for a kind that has not changed since the watch began."""
FORCED_WATCH_SECONDS: Final = 3
"""How long a watch lasts that is opened for a bookmark: the server sends it two seconds before the end."""
MEDIUM: Final = 10_000
"""With up to this many objects, a list of metadata shows whether the watch has reached a version sooner than a
bookmark, which comes after one to two seconds.
"""
SMALL: Final = 1000
"""With up to this many objects, a new list is faster than a bookmark if the watch lacks something."""
NATURAL_SECONDS: Final = 0.1
"""How long a busy watch may take to reach a version by itself."""
_REACH_SECONDS: Final = 0.01
_SHOWN_SECONDS: Final = 1.0
"""How long a watch of few objects may take to show what a list has."""
_AGAIN_SECONDS: Final = 5.0
"""After this long, progress is forced once more."""
_REARM_SECONDS: Final = 1.0
"""How often, at most, arriving data moves the silence deadline."""
_NO_SUCH_NAME: Final = "nobody"
"""A name to ask for when only the version of the response matters."""
CHUNK_BYTES: Final = 1 << 15
"""How much of a watch is handled before other tasks run, if as much has come."""
LINE_LIMIT: Final = 1 << 24
"""Bytes of a watch event. The API server stores objects of up to 3 MiB."""
RETRY: Final = RetryPolicy(shortest=0.05, longest=5.0, jitter=(0.5, 1.5))
QUICK_END_SECONDS: Final = 1.0
"""A watch that ends sooner is followed by a pause, like a failure."""
AT_ONCE: Final = 16
"""How many pods of a list a sink gets at once, at most."""
TOGETHER: Final = 1 << 15
"""Bytes of their texts, at most; a longer one comes alone. Pods without a known template take time by their bytes."""


class Sink(Protocol):
    """The receiver of the objects."""

    def key(self, raw: Mapping[str, Any]) -> str:
        """The object's identity. It is the uid where a later object of the same name must not be mistaken for it."""

    def put(self, raw: Mapping[str, Any]) -> None:
        """The object exists, or has changed."""

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        """The object was deleted, or is no longer selected. `raw` is its last state, if the server sent it."""


@runtime_checkable
class Holding(Sink, Protocol):
    """A sink that also learns of objects from other sources than its reflector."""

    def held(self) -> set[str]:
        """The keys of all objects that the sink believes to exist."""


@runtime_checkable
class TakesPodTexts(Holding, Protocol):
    """A sink of pods with a node, which takes them as PodText, and from lists some at a time."""

    takes_pod_texts: bool

    def put_all(self, raws: Sequence[Mapping[str, Any]]) -> None:
        """`put` for each."""


class Reflector:
    """See the module. `run` never returns; `synced` is set once the first list has been handed over."""

    def __init__(
        self,
        http: Http,
        resource: Resource,
        sink: Sink,
        *,
        field_selector: str = "",
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.list_count = 0
        self.blind_since: float | None = asyncio.get_running_loop().time()
        """Since when no watch is open, on the clock of the event loop; None while one is."""
        self.known: dict[str, int] = {}
        """The resourceVersion of each object by key; 0 if it is not a number."""
        self._http = http
        self._sink = sink
        self._relist_requested = False
        self._forced = False
        """True if the next watch is to be short, because a caller of `reach` waits."""
        self._silence: asyncio.Timeout | None = None
        """The deadline of the watch that is being read."""
        self._free = asyncio.Event()
        """Set unless objects and events are held back."""
        self._free.set()
        self._deletions: list[set[str]] = []
        """The keys of deleted objects, for each comparison that collects them."""
        self._logged_problems: set[str] = set()
        self._resource_version = ""
        compact_regularly(self)
        self._partial_line = bytearray()
        """The beginning of an event whose end has not arrived."""
        self._failures = 0
        of_pods = isinstance(sink, TakesPodTexts)
        self._put_all = sink.put_all if isinstance(sink, TakesPodTexts) else None
        self._loads_page: Callable[[bytes], Any] = loads_pods if of_pods else loads_page
        self._loads_event: Callable[[bytes], Any] = loads_pod_event if of_pods else loads
        self._selectors = {"fieldSelector": field_selector} if field_selector else {}

    async def run(self) -> None:
        """Lists, watches and audits until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(audit_for_ever(self), name=f"podwright audit of {self.resource.plural}")
            await self._list_and_watch()

    async def reach(self, version: int) -> None:
        """Returns once the sink has everything up to this resourceVersion. A quiet watch alone would show that only
        after a minute.
        """
        reached = await self._passes(version, NATURAL_SECONDS)
        while not reached:
            few = len(self.known) <= SMALL
            if len(self.known) <= MEDIUM and await self._has_all_of_a_list(
                version, _SHOWN_SECONDS if few else _AGAIN_SECONDS
            ):
                return
            if few:
                self.request_relist()
            else:
                await self._force_bookmark()
            reached = await self._passes(version, _AGAIN_SECONDS)

    async def _passes(self, version: int, seconds: float, has_all: Callable[[], bool] = bool) -> bool:
        """True if the watch reaches the version within this time, or `has_all` is true."""
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        while self.resource_version < version and not has_all():
            if clock() >= ends:
                return False
            await asyncio.sleep(_REACH_SECONDS)
        return True

    async def _has_all_of_a_list(self, version: int, seconds: float) -> bool:
        """True if the watch, within this time, has everything that a list of metadata shows which begins now. That is
        faster than a bookmark.
        """
        try:
            async with compared_with_list(self) as comparison:
                return await self._passes(
                    version, seconds, lambda: comparison.version >= version and not comparison.missed()
                )
        except ClusterError as error:
            log.debug("%s: cannot be compared with a list: %s", self.resource.collection, error)
            return False

    async def _force_bookmark(self) -> None:
        """Opens the watch again for a short time, so that the server sends a bookmark."""
        with suppress(ClusterError):
            # Without a consistent read, the bookmark of a kind that does not change can have an old version.
            await self._http.call("GET", self.resource.collection, params={**self._selectors, "limit": "1"})
        self._forced = True
        self._interrupt()

    # For the engine

    def hold_back(self) -> None:
        """Hands nothing over until `go_on`. The connection's buffers fill up, and the server waits."""
        self._free.clear()

    def go_on(self) -> None:
        self._free.set()

    # For the audit

    def request_relist(self) -> None:
        """Ends the watch and lists again: the watch has missed events."""
        self._relist_requested = True
        self._interrupt()

    def _interrupt(self) -> None:
        """Ends the watch that is being read, if there is one."""
        if self._silence is not None and not self._silence.expired():
            self._silence.reschedule(0.0)

    @property
    def resource_version(self) -> int:
        """The version up to which the watch has sent events; 0 if that is not known."""
        return version_number(self._resource_version)

    def held(self) -> set[str]:
        """The keys of all objects that are believed to exist."""
        return {*self.known, *(self._sink.held() if isinstance(self._sink, Holding) else ())}

    def key(self, raw: Mapping[str, Any]) -> str:
        """The object's identity, by the sink."""
        return self._sink.key(raw)

    def pages(self, accept: str = JSON) -> AsyncIterator[Mapping[str, Any]]:
        """A new list, page by page. Raises ClusterError."""
        return list_pages(self._http, self.resource.collection, self._selectors, accept)

    @contextmanager
    def deletions(self) -> Iterator[Collection[str]]:
        """Collects the keys of objects that the watch reports as deleted within the block."""
        deleted: set[str] = set()
        self._deletions.append(deleted)
        try:
            yield deleted
        finally:
            self._deletions = [others for others in self._deletions if others is not deleted]

    # List and watch

    async def _list_and_watch(self) -> None:
        while True:
            try:
                if self._relist_requested or not self._resource_version:
                    await self._list()
                if not await self._watch():
                    await self._back_off()
            except (ClusterError, TimeoutError, OSError) as error:
                await self._handle_error(error)

    async def _handle_error(self, error: BaseException) -> None:
        where = self.resource.collection
        if status_of(error) in (400, 404, 410):
            self._resource_version = ""
        if status_of(error) == 401:
            log.log(V6, "%s: %s; trying again", where, error)  # the credentials' source says so, once for all watches
        elif is_expired(error):
            log.log(V2, "%s: the resource version is too old; relisting", where)
        else:
            # One failure is any restart of the server. The second in a row shows that it lasts, and is worth one
            # warning.
            level = {0: V2, 1: logging.WARNING}.get(self._failures, V6)
            log.log(level, "%s: %s; trying again", where, error or type(error).__name__)
        await self._back_off(error)

    async def _back_off(self, error: BaseException | None = None) -> None:
        self._failures += 1
        await asyncio.sleep(RETRY.pause(self._failures, error))

    def _reset_backoff(self) -> None:
        if self._failures > 1:
            log.info("%s: watching again", self.resource.collection)
        self._failures = 0

    async def _list(self) -> None:
        """Hands over all objects, page by page, and drops known ones that the list lacks."""
        listed: set[str] = set()
        before = self.held()
        found = list_pages(self._http, self.resource.collection, self._selectors, loads=self._loads_page)
        async with aclosing(found) as pages:
            async for page in pages:
                await self._handle_page(page, listed)
                version = page["metadata"]["resourceVersion"]
                del page  # before the next one comes
                if not self.synced.is_set():
                    gc.freeze()  # collections would examine all objects of a start again and again
        await self._free.wait()
        async with aclosing(objects_of({"items": before - listed})) as gone:
            async for key in gone:
                await self._free.wait()
                self.known.pop(key, None)
                self._sink.drop(key, None)
        self._resource_version = version
        self._relist_requested = False
        self.list_count += 1
        self.synced.set()

    async def _handle_page(self, page: Mapping[str, Any], listed: set[str]) -> None:
        async with aclosing(objects_of({"items": some_at_a_time(page.get("items") or ())})) as found:
            async for raws in found:
                if not self._free.is_set():
                    await self._free.wait()
                self._take(raws, listed)

    def _take(self, raws: Sequence[Mapping[str, Any]], listed: set[str]) -> None:
        """Takes objects of a list, and adds their keys to `listed`."""
        known = []
        for raw in raws:
            try:
                key = self._sink.key(raw)
                self.known[key] = resource_version(raw)
                if self._put_all is None:
                    self._sink.put(raw)
            except (KeyError, TypeError, AttributeError) as error:
                self._log_invalid(raw, error)
            else:
                listed.add(key)
                known.append(raw)
        if self._put_all is not None:
            self._put_all(known)

    def _log_invalid(self, raw: object, error: Exception) -> None:
        """Logs each kind of problem once: without a name, items with the same problem are indistinguishable."""
        problem = repr(error)
        if problem not in self._logged_problems:
            self._logged_problems.add(problem)
            found = str(raw)[:200]
            log.error("%s: ignoring an item without usable metadata: %s: %s", self.resource.collection, problem, found)

    async def _watch(self) -> bool:
        """Watches until the server ends the watch. False if it ended too soon."""
        clock = asyncio.get_running_loop().time
        params = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resource_version,
            "timeoutSeconds": str(FORCED_WATCH_SECONDS if self._forced else random.randrange(*WATCH_SECONDS)),
        }
        compact_regularly(self)
        self._forced = False
        self._partial_line = bytearray()
        async with self._http.stream(self.resource.collection, params) as response:
            opened, blind_since = clock(), self.blind_since
            self.blind_since = None
            try:
                while not self._is_interrupted and not await self._read_events(response):
                    if not self._is_interrupted and await self._is_behind():
                        raise TimeoutError(f"nothing came for {SILENCE_SECONDS:g} s")
            finally:
                lasted = clock() >= opened + QUICK_END_SECONDS
                self.blind_since = clock() if lasted else blind_since
                if lasted:
                    self._reset_backoff()
        return lasted

    @property
    def _is_interrupted(self) -> bool:
        return self._relist_requested or self._forced

    async def _read_events(self, response: aiohttp.ClientResponse) -> bool:
        """Handles arriving events. True at the end of the watch, False after a silence, which does not end the
        watch.
        """
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(SILENCE_SECONDS) as silence:
                self._silence, armed = silence, clock()
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    if not self._is_interrupted and clock() > armed + _REARM_SECONDS:
                        armed = clock()
                        silence.reschedule(armed + SILENCE_SECONDS)
                    if not self._free.is_set():
                        await self._free.wait()
                    self._handle_chunk(chunk)
                    if len(chunk) == CHUNK_BYTES:
                        await asyncio.sleep(0)  # more has come already: others have their turn
        except TimeoutError:
            if silence.expired():
                return False
            raise
        finally:
            self._silence = None
        return True

    async def _is_behind(self) -> bool:
        """True if the API server's watch cache of this kind is ahead of the watch. Raises as `Http.call` does.

        The server sends no bookmark while it has nothing newer than the version that the watch began with, so silence
        alone proves nothing. True also if versions are not numbers.
        """
        params = {"resourceVersion": "0", "fieldSelector": f"metadata.name={_NO_SUCH_NAME}"}
        server_version = resource_version(await self._http.call("GET", self.resource.collection, params=params))
        return not server_version or server_version > self.resource_version

    def _handle_chunk(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        partial = self._partial_line
        if not others:
            partial += chunk
            if len(partial) > LINE_LIMIT:
                # A list also has the object, or shows that it is gone.
                raise ApiError(410, "Expired", f"a watch event of more than {LINE_LIMIT} bytes")
            return
        self._partial_line = bytearray(others.pop())
        for line in (bytes(partial) + first if partial else first, *others):
            if line:
                self._handle_event(line)

    def _handle_event(self, line: bytes) -> None:
        try:
            event = self._loads_event(line)
            kind, raw = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(int(raw.get("code") or 500), str(raw.get("reason", "")), str(raw.get("message", "")))
            self._resource_version = raw["metadata"]["resourceVersion"]
            if self._failures:
                self._reset_backoff()
            if kind == "DELETED":
                self._drop(raw)
            elif kind != "BOOKMARK":
                self._put(raw)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            # The event may be of any object, so only a relist can make up for it.
            raise ApiError(410, "Expired", f"a malformed watch event: {error!r}: {line[:200]!r}") from error

    def _drop(self, raw: Mapping[str, Any]) -> None:
        key = self._sink.key(raw)
        self.known.pop(key, None)
        if not self.known:
            self.known.clear()  # an emptied dict keeps the memory of a burst
        for deleted in self._deletions:
            deleted.add(key)
        self._sink.drop(key, raw)

    def _put(self, raw: Mapping[str, Any]) -> None:
        self.known[self._sink.key(raw)] = resource_version(raw)
        self._sink.put(raw)


def some_at_a_time(raws: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """The objects of a page in order: texts of pods up to AT_ONCE and TOGETHER, others alone."""
    some: list[Any] = []
    size = 0
    for raw in raws:
        length = len(raw.text) if type(raw) is PodText else TOGETHER
        if some and size + length > TOGETHER:
            yield some
            some, size = [], 0
        some.append(raw)
        size += length
        if size >= TOGETHER or len(some) == AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some
