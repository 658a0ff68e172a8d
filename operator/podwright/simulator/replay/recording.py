"""Recordings: JSON lines with what a cluster had at the start, and how it changed. `podwright record` writes them.

    {"time": 1700000000.0, "type": "INITIAL", "object": {"kind": "Node", …}}
    {"time": 1700000012.5, "type": "ADDED", "object": {"kind": "Pod", …}, "duration": 60}

`time`: seconds, or an RFC 3339 time. `type`: INITIAL for objects of the start, then the types of a watch: ADDED,
MODIFIED, DELETED. `duration` in an ADDED line of a pod: how many seconds it runs on its node. Without it, later lines
show this. Only nodes and pods may change; of other kinds, the first version counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod, parse_time
from podwright.core.objects.raw import Raw, json_type, mapping_at
from podwright.simulator.replay.stream import (
    Arrival,
    Event,
    NodeUpdate,
    PodLeaves,
    ReplayStream,
    StreamError,
    lines_of,
    sorted_events,
)

TYPES: Final = ("INITIAL", "ADDED", "MODIFIED", "DELETED")
FINISHED: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Seen:
    """A pod of the recording. Times are None until they are known."""

    pod: PodInfo | None
    arrived: float
    initial: bool
    batch: bool
    bound: float | None = None
    ended: float | None = None
    duration: float | None = None


def read_recording(path: str, initial: list[Raw] | None = None) -> ReplayStream:
    """The stream of a file. `initial`: further objects of the start, from a snapshot. Raises StreamError, which names
    file and line.
    """
    reading = _Reading(path, initial or [])
    for number, line in lines_of(path):
        if line.strip():
            reading.take(number, line)
    return reading.stream()


class _Reading:
    def __init__(self, path: str, initial: list[Raw]) -> None:
        self._path = path
        self._initial: list[Raw] = []
        self._pods: dict[str, _Seen] = {}
        self._nodes: list[Event] = []
        self._known: set[tuple[str, str, str]] = set()
        self._problems: list[str] = []
        self._first: float | None = None
        self._last = 0.0
        for raw in initial:
            if raw.get("kind") == "Pod":
                self._pod("INITIAL", 0.0, raw, None, "snapshot")
            else:
                self._initial.append(raw)

    def take(self, number: int, line: bytes) -> None:
        where = f"{self._path}:{number}"
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise StreamError(f"{where}: not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise StreamError(f"{where}: expected an object, got {json_type(entry)}")
        time = _time(entry.get("time"), where)
        kind, raw = entry.get("type"), entry.get("object")
        if kind not in TYPES:
            raise StreamError(f"{where}: type: {kind!r} is not one of {', '.join(TYPES)}")
        if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
            raise StreamError(f"{where}: object: expected a Kubernetes object with a kind")
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise StreamError(f"{where}: object.metadata.name: is missing")
        self._first = time if self._first is None else min(self._first, time)
        self._last = max(self._last, time)
        if raw["kind"] == "Pod":
            self._pod(kind, time, raw, _duration(entry.get("duration"), where), where)
        elif raw["kind"] == "Node":
            self._node(kind, time, raw, metadata["name"])
        else:
            key = (raw["kind"], str(metadata.get("namespace") or ""), metadata["name"])
            if kind != "DELETED" and key not in self._known:
                self._known.add(key)
                self._initial.append(raw)

    def _node(self, kind: str, time: float, raw: Raw, name: str) -> None:
        if kind == "INITIAL":
            self._initial.append(raw)
        else:
            self._nodes.append(NodeUpdate(time, name, None if kind == "DELETED" else raw))

    def _pod(self, kind: str, time: float, raw: Raw, duration: float | None, where: str) -> None:
        metadata, spec, status = (mapping_at(raw, key) for key in ("metadata", "spec", "status"))
        uid = str(metadata.get("uid") or f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}")
        seen = self._pods.get(uid)
        over = kind == "DELETED" or status.get("phase") in FINISHED
        if seen is None:
            if over:
                return
            seen = self._pods[uid] = _Seen(self._parsed(raw, where), time, kind == "INITIAL", _is_batch(metadata, spec))
            if seen.initial and spec.get("nodeName"):
                self._initial.append(raw)
        seen.duration = seen.duration if duration is None else duration
        if spec.get("nodeName") and seen.bound is None:
            seen.bound = time
        if over and seen.ended is None:
            seen.ended = time

    def _parsed(self, raw: Raw, where: str) -> PodInfo | None:
        try:
            return parse_pod(raw, keep_raw=True)
        except InvalidObjectError as error:
            self._problems.append(f"{where}: {error}")
            return None

    def stream(self) -> ReplayStream:
        start = self._first or 0.0
        events: list[Event] = [*self._nodes]
        for uid, seen in self._pods.items():
            if seen.pod is None:
                continue
            if seen.initial and seen.bound is not None:
                if seen.ended is not None:
                    events.append(PodLeaves(seen.ended, uid))
                continue
            events.append(_arrival(seen, start))
        events = sorted_events(events)
        lasting = (each.time + (each.runs_for or 0.0) for each in events if isinstance(each, Arrival))
        end = max((self._last, *lasting), default=start)
        return ReplayStream(initial=self._initial, events=events, start=start, end=end, problems=self._problems)


def _arrival(seen: _Seen, start: float) -> Arrival:
    assert seen.pod is not None, "the caller has checked"
    pod = replace(seen.pod, node_name="", nominated_node_name="", phase="Pending", start_time=None)
    time = max(seen.arrived, start)
    if seen.duration is not None:
        return Arrival(time, pod, runs_for=seen.duration)
    if seen.batch and seen.bound is not None and seen.ended is not None:
        return Arrival(time, pod, runs_for=max(0.0, seen.ended - seen.bound))
    return Arrival(time, pod, leaves_at=seen.ended, gives_up_at=seen.ended)


def _is_batch(metadata: Raw, spec: Raw) -> bool:
    """True if the pod ends by itself: it belongs to a Job, or is not restarted."""
    owners = metadata.get("ownerReferences")
    by_job = isinstance(owners, list) and any(isinstance(o, Mapping) and o.get("kind") == "Job" for o in owners)
    return by_job or spec.get("restartPolicy") in ("Never", "OnFailure")


def _time(value: object, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    try:
        found = parse_time(value, "time")
    except InvalidObjectError as error:
        raise StreamError(f"{where}: {error}") from error
    if found is None:
        raise StreamError(f"{where}: time: is missing")
    return found


def _duration(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise StreamError(f"{where}: duration: expected seconds")
    return float(value)
