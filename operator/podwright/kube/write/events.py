"""Events as kube-scheduler writes them: events.k8s.io/v1, repeated ones as series, posted in the background.

`record` only queues. When the queue is full, new events are dropped and counted. As in client-go's broadcaster, the
first warning is an event, its first repetition makes it a series, and further ones are only counted; the count is
written regularly and at the end of the series. A warning whose text has changed is a new event (in client-go too,
because the pod's condition, and with it the pod, has changed). Longer notes than the API server accepts are cut.
Posting is rate-limited, and gives up after a few attempts. Texts come from the engine.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, Literal

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import shrink
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.times import rfc3339_micro
from podwright.engine.outcomes.binding.concurrency import FEW, ConcurrencyLimit
from podwright.engine.ports import Regarding
from podwright.engine.records.log_fields import V6
from podwright.kube.client.errors import ApiError, is_not_found, is_retryable, is_throttled
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import STRATEGIC_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import EVENT
from podwright.kube.write.work_queue import until_idle

log = logging.getLogger(__name__)

SCHEDULED: Final = "Scheduled"
"""The reason of the event of each bound pod."""
WORKERS: Final = 8
"""Events that are posted at once where the network takes no time, beside Bindings."""
TIMES_ALONE: Final = 4
"""How many times as many are posted at once when few other requests are in progress: as many as Bindings, on their
connections. What comes together, etcd stores in one go.
"""
MOST_WORKERS: Final = 128
LIMITED_SECONDS: Final = 0.01
"""How long a worker waits while fewer may post at once: the API server answers 429, or a latency is measured."""
QUEUE_LIMIT: Final = 20_000
EVENTS_PER_SECOND: Final = 2_000.0
RETRY: Final = RetryPolicy(shortest=0.25, longest=1.0, attempts=4)
SERIES_LIMIT: Final = 20_000
"""For how many objects warnings are remembered. If there are more, the oldest series end."""
FINISH_SECONDS: Final = 360.0
"""A series without a repetition for this long has ended."""
REFRESH_SECONDS: Final = 1_800.0
"""How often the count of a running series is written."""
SWEEP_SECONDS: Final = 60.0
"""How often to look for series that have ended or must be written."""
POLICY_ANNOTATION: Final = "podwright.dev/policy"
"""The annotation of an event with name and generation of the policy that decided, as name@generation."""
_MAX_REFUSALS: Final = 100
"""How many different reasons of refusals are logged. The API server has a few dozen."""
NOTE_BYTES: Final = 1024
"""The longest note of an event that the API server accepts."""


@dataclass(slots=True)
class _Series:
    """A warning that may repeat. `written`: the count that the API server has, since `written_at`.

    `last` is wall-clock time, for people to read; `last_steady` and `written_at` are of the steady clock.
    """

    body: dict[str, Any]
    last: float
    last_steady: float
    count: int = 1
    written: int = 1
    written_at: float = 0.0
    queued: bool = False

    def matches(self, reason: str, action: str) -> bool:
        """True if all but the text is the same."""
        return bool(self.body["reason"] == reason and self.body["action"] == action)


@dataclass(slots=True)
class _Post:
    """A request to make: to create an event, or to write the count of a series."""

    body: dict[str, Any] | None
    series: _Series | None = field(default=None)


class EventRecorder:
    """Implements `Recorder`. `run` is the work; `dropped` is called for each event that is given up.

    `clock` gives seconds since the epoch; `steady` gives seconds of a clock that never steps.
    """

    def __init__(
        self,
        http: Http,
        *,
        clock: Callable[[], float],
        dropped: Callable[[], None],
        queue_limit: int = QUEUE_LIMIT,
        per_second: float = EVENTS_PER_SECOND,
        steady: Callable[[], float] | None = None,
        muted: bool = False,
        scheduled_per_second: int | None = None,
        left_out: Callable[[], None] = lambda: None,
    ) -> None:
        """`scheduled_per_second`: how many events Scheduled are written in a second at most; None: all. `left_out` is
        called for each of the others.
        """
        self.muted = muted
        """True if nothing is recorded. A standby leaves the events to the leader."""
        self._http = http
        self._clock = clock
        self._steady = steady or clock
        self._dropped = dropped
        self._queue_limit = queue_limit
        self._interval = 1.0 / per_second
        self._host = socket.gethostname()
        self._queue: deque[_Post] = deque()
        self._series: dict[str, list[_Series]] = {}
        """By the uid of the object that they regard, or by its name if it has no uid."""
        self._queue_filled = asyncio.Event()
        self._posting = 0
        self._sent = 0
        """How many of the events being posted are with the API server."""
        self._workers = 0
        self._concurrency = ConcurrencyLimit(WORKERS, MOST_WORKERS, now=self._steady())
        self._next_at = 0.0
        self._serial = 0
        self._refusals: set[str] = set()
        self._scheduled_per_second = scheduled_per_second
        self._left_out = left_out
        self._scheduled_left = 0.0 if scheduled_per_second is None else float(scheduled_per_second)
        self._scheduled_at = self._steady()

    def record(
        self,
        regarding: PodInfo | Regarding,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        policy: str = "",
        reporter: str = "",
    ) -> None:
        if self.muted:
            return
        note = _shortened(note)
        if kind == "Normal":
            if reason == SCHEDULED and not self._tells_scheduled():
                self._left_out()
                return
            self._enqueue(_Post(self._body(regarding, kind, reason, action, note, policy, reporter)))
            return
        now, steady = self._clock(), self._steady()
        all_series = self._series_of(regarding.uid or regarding.name)
        for series in all_series:
            if not series.matches(reason, action):
                continue
            if series.body["note"] == note:
                series.count += 1
                series.last, series.last_steady = now, steady
                if policy:
                    series.body["metadata"]["annotations"] = {POLICY_ANNOTATION: policy}
                if series.count == 2:
                    self._enqueue_count(series)
                return
            self._end(series)
            all_series.remove(series)
            break
        body = self._body(regarding, kind, reason, action, note, policy, reporter)
        all_series.append(_Series(body=body, last=now, last_steady=steady, written_at=steady))
        self._enqueue(_Post(body))

    def _tells_scheduled(self) -> bool:
        """True unless there were too many events Scheduled in the last second."""
        most, now = self._scheduled_per_second, self._steady()
        if most is None:
            return True
        self._scheduled_left = min(most, self._scheduled_left + most * (now - self._scheduled_at))
        self._scheduled_at = now
        if self._scheduled_left < 1:
            return False
        self._scheduled_left -= 1
        return True

    def _series_of(self, key: str) -> list[_Series]:
        found = self._series.get(key)
        if found is None:
            if len(self._series) >= SERIES_LIMIT:
                self.forget(next(iter(self._series)))
            found = self._series[key] = []
        return found

    def forget(self, uid: str) -> None:
        for series in self._series.pop(uid, ()):
            self._end(series)

    def _end(self, series: _Series) -> None:
        """Writes the final count."""
        if series.count > series.written:
            self._enqueue_count(series)

    async def run(self) -> None:
        """Posts what was recorded, until it is cancelled."""
        self._workers = 0
        async with asyncio.TaskGroup() as workers:
            workers.create_task(self._sweep_regularly(), name="podwright event series")
            for _ in range(WORKERS):
                self._start_worker(workers)

    async def flush(self, grace: float) -> None:
        """Returns when all events are posted, after at most `grace` seconds."""
        await until_idle(lambda: bool(self._queue or self._posting), grace)

    def _body(
        self,
        regarding: PodInfo | Regarding,
        kind: str,
        reason: str,
        action: str,
        note: str,
        policy: str,
        reporter: str,
    ) -> dict[str, Any]:
        now = self._clock()
        self._serial += 1
        controller = reporter or regarding.scheduler_name
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{regarding.name[:230].rstrip('-.')}.{int(now * 1e9) + self._serial % 1000:x}",
                # Events of an object without a namespace belong into this one.
                "namespace": regarding.namespace or "default",
            },
            "eventTime": rfc3339_micro(now),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._host}"[:128],
            "action": action,
            "reason": reason,
            "regarding": _reference(regarding),
            "note": note,
            "type": kind,
        }
        if policy:
            body["metadata"]["annotations"] = {POLICY_ANNOTATION: policy}
        return body

    def _enqueue(self, post: _Post) -> bool:
        """False if the queue is full and the post was dropped."""
        if len(self._queue) >= self._queue_limit:
            self._dropped()
            return False
        self._queue.append(post)
        if not self._queue_filled.is_set():
            self._queue_filled.set()
        return True

    def _enqueue_count(self, series: _Series) -> None:
        if not series.queued:
            series.queued = self._enqueue(_Post(None, series))

    @property
    def _limit(self) -> int:
        """How many events may be posted at once now."""
        limit = self._concurrency.limit
        return limit if self._http.in_progress - self._sent > FEW else min(TIMES_ALONE * limit, MOST_WORKERS)

    def _start_worker(self, workers: asyncio.TaskGroup) -> None:
        self._workers += 1
        workers.create_task(self._run_worker(workers), name="podwright event poster")

    async def _run_worker(self, workers: asyncio.TaskGroup) -> None:
        """Posts events until there are more workers than are needed."""
        while self._workers <= max(WORKERS, self._limit):
            await self._queue_filled.wait()
            if not self._queue:
                self._queue_filled.clear()
                if self._workers > WORKERS:
                    break
                continue
            if self._posting >= self._limit:
                self._concurrency.reached()
                await asyncio.sleep(LIMITED_SECONDS)
                continue
            post = self._queue.popleft()
            self._posting += 1
            if self._queue and self._posting == self._workers:
                if self._workers < self._limit:
                    self._start_worker(workers)
                else:
                    self._concurrency.reached()
            try:
                await self._wait_for_rate()
                await self._post(post)
            except Exception:
                log.exception("posting an event failed")
                self._dropped()
            finally:
                self._posting -= 1
                del post  # frees it while the worker waits for the next one
        self._workers -= 1

    async def _wait_for_rate(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._next_at = max(self._next_at + self._interval, now)
        # A burst may be up to 20 ms ahead of the rate: shorter sleeps cost more than they save.
        if self._next_at > now + 0.02:
            await asyncio.sleep(self._next_at - now)

    async def _post(self, post: _Post) -> None:
        began, alone = self._steady(), self._posting <= FEW
        try:
            await self._request(post)
        except ClusterError as error:
            failure = error
        else:
            self._concurrency.completed(began, self._steady(), alone=alone)
            return
        if is_throttled(failure):
            self._concurrency.throttled(self._steady())
        try:
            await RETRY.resume(lambda: self._request(post), failure)
        except ClusterError as error:
            if isinstance(error, ApiError) and not is_retryable(error):
                self._refused(error)
            else:
                self._dropped()

    async def _request(self, post: _Post) -> None:
        self._sent += 1
        try:
            await (self._create(post.body) if post.series is None else self._patch(post.series))
        finally:
            self._sent -= 1

    def _refused(self, error: ApiError) -> None:
        """Warns once for each reason: missing rights refuse every event alike. A namespace that is being deleted is
        normal.
        """
        reason = error.reason or f"HTTP {error.status}"
        expected = is_not_found(error) or "being terminated" in str(error)
        if expected or reason in self._refusals or len(self._refusals) >= _MAX_REFUSALS:
            log.log(V6, "an event was refused: %s", error)
            return
        self._refusals.add(reason)
        log.warning("an event was refused (logged once for each reason): %s", error)

    async def _create(self, body: dict[str, Any] | None) -> None:
        assert body is not None
        path = EVENT.collection_in(body["metadata"]["namespace"])
        answer = await self._http.send("POST", path, orjson.dumps(body))
        if answer.status >= 300 and answer.status != 409:
            raise answer.error()

    async def _patch(self, series: _Series) -> None:
        series.queued = False
        count, last = series.count, rfc3339_micro(series.last)
        counted = {"series": {"count": count, "lastObservedTime": last}}
        metadata = series.body["metadata"]
        # A later generation of the policy may have decided the last attempt.
        change = (
            {**counted, "metadata": {"annotations": metadata["annotations"]}} if "annotations" in metadata else counted
        )
        path = EVENT.path(metadata["name"], metadata["namespace"])
        answer = await self._http.send("PATCH", path, orjson.dumps(change), STRATEGIC_PATCH)
        if answer.status == 404:
            await self._create({**series.body, **counted})
        elif answer.status >= 300:
            raise answer.error()
        series.written, series.written_at = count, self._steady()

    def sweep(self) -> None:
        """Ends series that are over, and writes the counts of running ones. `run` calls it every minute."""
        for key, all_series in list(self._series.items()):
            running = [series for series in all_series if self._refresh(series)]
            if running:
                self._series[key] = running
            else:
                del self._series[key]
        shrink(self._series)

    async def _sweep_regularly(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def _refresh(self, series: _Series) -> bool:
        """Writes the count if that is due. Whether the series is still running."""
        now = self._steady()
        ended = now - series.last_steady > FINISH_SECONDS
        if series.count > series.written and (ended or now - series.written_at > REFRESH_SECONDS):
            self._enqueue_count(series)
        return not ended


def _reference(of: PodInfo | Regarding) -> dict[str, str]:
    version, kind = (of.api_version, of.kind) if isinstance(of, Regarding) else ("v1", "Pod")
    reference = {"apiVersion": version, "kind": kind, "name": of.name}
    if of.namespace:
        reference["namespace"] = of.namespace
    if of.uid:
        reference["uid"] = of.uid
    if of.resource_version:
        reference["resourceVersion"] = of.resource_version
    return reference


def _shortened(note: str) -> str:
    """The note, cut to what the API server accepts."""
    data = note.encode()
    if len(data) <= NOTE_BYTES:
        return note
    return data[: NOTE_BYTES - 4].decode(errors="ignore") + " ..."
