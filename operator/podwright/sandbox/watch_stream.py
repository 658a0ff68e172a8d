"""One watch: it encodes each change immediately, and `pump` writes the pending bytes to the client.

An expired revision is reported as an ERROR event in the stream, as by a real API server.
"""

import asyncio

import orjson
from aiohttp import web

from podwright.sandbox import tables
from podwright.sandbox.errors import StatusError
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.selectors import ListSelection
from podwright.sandbox.store import Revision, Store, StoreChange, event_line

BOOKMARK_SECONDS = 15.0
WATCH_SECONDS = 1800
BEFORE_END_SECONDS = 2.0  # when the last bookmark comes, as from the API server


class Watch:
    """Raises ApiError for an invalid query. After `end`, `pump` writes the pending events and returns."""

    def __init__(self, store: Store, kind: Kind, selection: ListSelection, request: web.BaseRequest) -> None:
        query, rv = request.query, request.query.get("resourceVersion", "")
        if rv and not rv.isdigit():
            raise StatusError(500, "", f'resourceVersion: Invalid value: "{rv}": invalid syntax')
        self._store, self._kind, self._selection = store, kind, selection
        self._initial = query.get("sendInitialEvents") == "true"
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._table = "as=Table" in request.headers.get("Accept", "")
        self._include, self._headers = query.get("includeObject", ""), True
        self._pending: list[bytes] = []
        self._wake, self._ended = asyncio.Event(), False
        loop = asyncio.get_running_loop()
        seconds = int(query.get("timeoutSeconds") or WATCH_SECONDS)
        self._limit = loop.call_later(seconds, self.end)
        self._last_bookmark = loop.call_later(max(0.0, seconds - BEFORE_END_SECONDS), self._bookmark, {})
        self._ticker = loop.call_later(BOOKMARK_SECONDS, self._tick)
        try:
            self._begin(int(rv or 0))
            store[kind.stored].watchers.add(self._offer)
        except StatusError as error:
            self._pending.append(event_line("ERROR", orjson.dumps(error.status())))
            self.end()

    def _begin(self, rv: int) -> None:
        collection = self._store[self._kind.stored]
        if rv and not self._initial:
            for change in collection.since(rv):
                self._offer(change)
            return
        for entry in collection.select(self._selection):
            self._pending.append(self._line("ADDED", entry))
        if self._initial:
            self._bookmark({"annotations": {"k8s.io/initial-events-end": "true"}})

    def _offer(self, change: StoreChange) -> None:
        seen = change.seen(self._selection)
        if seen:
            self._pending.append(self._line(*seen) if self._table else change.line(self._kind, *seen))
            self._wake.set()

    def _line(self, event: str, entry: Revision) -> bytes:
        if not self._table:
            return event_line(event, self._kind.encode(entry.obj, entry.data))
        metadata, headers = {"resourceVersion": str(entry.rv)}, self._headers
        self._headers = False
        return event_line(
            event, orjson.dumps(tables.table(self._kind, [entry], metadata, self._include, headers=headers))
        )

    def _bookmark(self, metadata: Obj) -> None:
        if self._bookmarks:
            metadata = {"resourceVersion": str(self._store.rv), "creationTimestamp": None, **metadata}
            obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
            self._pending.append(event_line("BOOKMARK", orjson.dumps(obj)))
            self._wake.set()

    def _tick(self) -> None:
        self._bookmark({})
        self._ticker = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._tick)

    def end(self) -> None:
        self._ended = True
        self._store[self._kind.stored].watchers.discard(self._offer)
        self._limit.cancel()
        self._last_bookmark.cancel()
        self._ticker.cancel()
        self._wake.set()

    async def pump(self, response: web.StreamResponse) -> None:
        while self._pending or not self._ended:
            if self._pending:
                chunk = b"".join(self._pending)
                self._pending.clear()
                await response.write(chunk)
            else:
                self._wake.clear()
                await self._wake.wait()
