"""Records a cluster: what it has at the start, and how its nodes and pods change, as the JSON lines that `recording` reads.

Reads with the caller's own permissions and writes nothing to the cluster. Lines have no secrets, as snapshots have none. A change that
scheduling does not depend on, such as a node's heartbeat, makes no line.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.kube.client import access
from podwright.kube.client.credentials import credentials
from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.client.http import Http
from podwright.kube.kinds import NODE, POD, Resource
from podwright.kube.watch.reflector import Reflector
from podwright.simulator.live import Connection, take_snapshot
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import SnapshotError

Raw = Mapping[str, Any]

_BOOKKEEPING: Final = ("resourceVersion", "generation")


@dataclass(slots=True)
class Recorder:
    """Writes lines to a file. `clock` gives seconds since the epoch. `lines`: how many were written."""

    file: BinaryIO
    clock: Callable[[], float]
    lines: int = 0

    def write(self, kind: str, raw: Raw) -> None:
        """One line, complete on disk as soon as it is written."""
        line = {"time": round(self.clock(), 3), "type": kind, "object": raw}
        self.file.write(orjson.dumps(line) + b"\n")
        self.file.flush()
        self.lines += 1


class _Changes:
    """Takes the versions of one kind's objects, and records those that differ."""

    def __init__(self, resource: Resource, recorder: Recorder, annotations: tuple[str, ...]) -> None:
        self._resource = resource
        self._recorder = recorder
        self._annotations = annotations
        self._known: dict[str, bytes] = {}
        """By key: what was recorded last."""
        self._started = False

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
        self._recorder.write("MODIFIED" if before is not None else "ADDED" if self._started else "INITIAL", kept)

    def drop(self, key: str, raw: Raw | None) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._recorder.write("DELETED", orjson.loads(known) if raw is None else self._kept(raw))

    def _kept(self, raw: Raw) -> dict[str, Any]:
        named = {"apiVersion": self._resource.version, "kind": self._resource.kind, **raw}
        return redacted(self._resource.kind, named, self._annotations)


async def record(connection: Connection, file: BinaryIO, seconds: float | None, stop: asyncio.Event) -> Recorder:
    """Records until `stop` is set, at most for `seconds`. Raises SnapshotError if the cluster cannot be read."""
    recorder = Recorder(file, time.time)
    try:
        source = credentials.load(connection.kubeconfig, connection.context, time.time, time.monotonic)
        http = Http(source)
        try:
            await access.require(http, (NODE, POD))
            await _record(http, connection, recorder, seconds, stop)
        finally:
            await http.close()
    except (ClusterError, ConfigError, AccessError, OSError) as error:
        raise SnapshotError(f"cannot record the cluster: {error}") from error
    return recorder


async def _record(
    http: Http, connection: Connection, recorder: Recorder, seconds: float | None, stop: asyncio.Event
) -> None:
    for raw in (await take_snapshot(http, connection)).objects:
        if raw["kind"] not in (NODE.kind, POD.kind):
            recorder.write("INITIAL", raw)
    sinks = [_Changes(resource, recorder, tuple(connection.annotations)) for resource in (NODE, POD)]
    reflectors = [Reflector(http, resource, sink=sink) for resource, sink in zip((NODE, POD), sinks, strict=True)]
    tasks = [asyncio.create_task(reflector.run(), name="podwright record") for reflector in reflectors]
    try:
        for reflector, sink in zip(reflectors, sinks, strict=True):
            await reflector.synced.wait()
            sink.started()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
