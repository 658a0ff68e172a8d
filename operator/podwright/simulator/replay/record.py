"""Records a cluster: what it has at the start, and how its nodes and pods change, as the JSON lines that `recording`
reads.

Reads with the caller's own permissions and writes nothing to the cluster. Lines have no secrets, as snapshots have
none. A change that scheduling does not depend on, such as a node's heartbeat, makes no line.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import parse_time
from podwright.core.objects.raw import Raw
from podwright.engine.process.side_thread import SideThread
from podwright.kube.client import access
from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.client.http import Http
from podwright.kube.kinds import NODE, POD, Resource
from podwright.kube.watch.reflector import Reflector
from podwright.simulator.live import LiveConnection, kept_of, knowing_owners, take_snapshot
from podwright.simulator.snapshot import SnapshotError

READER_SECONDS: Final = 1.0
"""How long it takes until a recording notices that nobody reads it, if nothing is written."""
_BOOKKEEPING: Final = ("resourceVersion", "generation")


@dataclass(slots=True)
class StreamRecorder:
    """Writes lines to a file. `clock` gives seconds since the epoch. `lines`: how many were written.

    If the file takes no more, the recording stops, and `failure` says why.
    """

    file: BinaryIO
    clock: Callable[[], float]
    stop: asyncio.Event
    lines: int = 0
    failure: OSError | None = None

    def write(self, kind: str, raw: Raw) -> None:
        """One line, complete on disk as soon as it is written."""
        if self.failure is not None:
            return
        line = {"time": round(self.clock(), 3), "type": kind, "object": raw}
        try:
            self.file.write(orjson.dumps(line) + b"\n")
            self.file.flush()
        except OSError as error:  # the reflector, whose call this is, would retry
            self.failure = error
            self.stop.set()
        else:
            self.lines += 1


class _Changes:
    """Takes the versions of one kind's objects, and records those that differ."""

    def __init__(self, resource: Resource, recorder: StreamRecorder, connection: LiveConnection) -> None:
        self._resource = resource
        self._recorder = recorder
        self._connection = connection
        self._known: dict[str, bytes] = {}
        """By key: what was recorded last."""
        self._started = False
        self._began = int(recorder.clock())  # creation times have whole seconds

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["uid"])

    def started(self) -> None:
        """Call it once all objects of the start have been recorded."""
        self._started = True

    def put(self, raw: Raw) -> None:
        kept = self._kept(raw)
        metadata = {key: value for key, value in kept["metadata"].items() if key not in _BOOKKEEPING}
        key, content = self.key(raw), orjson.dumps({**kept, "metadata": metadata}, option=orjson.OPT_SORT_KEYS)
        before = self._known.get(key)
        if before == content:
            return
        self._known[key] = content
        new = self._started or (parse_time(metadata.get("creationTimestamp"), "") or 0.0) >= self._began
        self._recorder.write("MODIFIED" if before is not None else "ADDED" if new else "INITIAL", kept)

    def drop(self, key: str, raw: Raw | None) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._recorder.write("DELETED", orjson.loads(known) if raw is None else self._kept(raw))

    def _kept(self, raw: Raw) -> dict[str, Any]:
        return kept_of(self._resource, raw, self._connection)


async def record(
    connection: LiveConnection, file: BinaryIO, seconds: float | None, stop: asyncio.Event
) -> StreamRecorder:
    """Records until `stop` is set, at most for `seconds` after the whole cluster was read. Raises SnapshotError if it
    cannot be read.
    """
    recorder = StreamRecorder(file, time.time, stop)
    try:
        http = Http(connection.credentials())
        try:
            await _record(http, connection, recorder, seconds, stop)
        finally:
            await http.close()
    except (ClusterError, ConfigError, AccessError, OSError) as error:
        raise SnapshotError(f"cannot record the cluster: {error}") from error
    if recorder.failure is not None and not isinstance(recorder.failure, BrokenPipeError):
        raise recorder.failure
    return recorder


async def _record(
    http: Http, connection: LiveConnection, recorder: StreamRecorder, seconds: float | None, stop: asyncio.Event
) -> None:
    watches: list[asyncio.Task[None]] = []

    async def begin() -> None:
        await access.require(http, (NODE, POD))
        known, owners = await SideThread("podwright owners").call(lambda: knowing_owners(connection))
        problems = await access.access_problems(http, owners)
        followed = (NODE, POD, *(owner for owner in owners if problems[owner] is None))
        sinks = [_Changes(resource, recorder, known) for resource in followed]
        reflectors = [Reflector(http, resource, sink=sink) for resource, sink in zip(followed, sinks, strict=True)]
        watches.extend(asyncio.create_task(reflector.run(), name="podwright record") for reflector in reflectors)
        for reflector, sink in zip(reflectors, sinks, strict=True):
            await reflector.synced.wait()
            sink.started()
        for raw in (await SideThread("podwright snapshot").call(lambda: take_snapshot(connection))).objects:
            if raw["kind"] not in {each.kind for each in followed}:
                recorder.write("INITIAL", raw)

    begun, stopped = asyncio.create_task(begin()), asyncio.create_task(_stopped(recorder.file, stop))
    try:
        await asyncio.wait((begun, stopped), return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            begun.result()
            await asyncio.wait((stopped,), timeout=seconds)
    finally:
        for task in (*watches, begun, stopped):
            task.cancel()
        await asyncio.gather(*watches, begun, stopped, return_exceptions=True)


async def _stopped(file: BinaryIO, stop: asyncio.Event) -> None:
    """Returns when the recording is to stop: on request, or because nobody reads from the pipe that it is written
    to.
    """
    pipe = select.poll()
    with contextlib.suppress(OSError, ValueError):  # not a file descriptor
        pipe.register(file, 0)
    while not stop.is_set() and not pipe.poll(0):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), READER_SECONDS)
