"""Events for people, as kube-scheduler writes them: events.k8s.io/v1, repeated ones as series, posted behind the bindings.

`record` only queues. When more wait than may, the newest are dropped and counted. The first warning about a pod is an event;
the same once more makes that event a series; from then on it is only counted, and the count is written now and then and at the
end of the series, as client-go's broadcaster does. A warning whose text has changed is a new event (with client-go it is, because
the pod's condition and with it the pod changes too). Posting keeps below a rate, and gives up after a few tries.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.engine.ports import Regarding
from podwright.kube.client.errors import ApiError, is_not_found, is_retryable
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import STRATEGIC_PATCH
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.client.times import rfc3339_micro
from podwright.kube.kinds import EVENT
from podwright.kube.write.work_queue import until_idle

log = logging.getLogger(__name__)

WORKERS: Final = 8
WAITING_AT_MOST: Final = 20_000
PER_SECOND: Final = 2_000.0
RETRY: Final = RetryPolicy(shortest=0.25, longest=1.0, attempts=4)
FINISH_SECONDS: Final = 360.0
REFRESH_SECONDS: Final = 1_800.0
SWEEP_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Series:
    """An event that may repeat. `written`: how many of `count` the API server knows of, at `written_at`.

    `last` is a time for people to read; `seen` and `written_at` are of a clock that does not step.
    """

    body: dict[str, Any]
    last: float
    seen: float
    count: int = 1
    written: int = 1
    written_at: float = 0.0
    queued: bool = False

    def like(self, reason: str, action: str, related_uid: str) -> bool:
        """Whether this says the same but for the text."""
        body = self.body
        known = body["related"].get("uid", "") if "related" in body else ""
        return body["reason"] == reason and body["action"] == action and known == related_uid


@dataclass(slots=True)
class _Post:
    body: dict[str, Any] | None
    series: _Series | None = field(default=None)


class EventRecorder:
    """Implements `Recorder`. `run` is the work; `clock` gives seconds since the epoch, `steady` seconds that never step."""

    def __init__(
        self,
        http: Http,
        clock: Callable[[], float],
        dropped: Callable[[], None],
        *,
        waiting_at_most: int = WAITING_AT_MOST,
        per_second: float = PER_SECOND,
        steady: Callable[[], float] | None = None,
    ) -> None:
        self._http = http
        self._clock = clock
        self._steady = steady or clock
        self._dropped = dropped
        self._limit = waiting_at_most
        self._interval = 1.0 / per_second
        self._host = socket.gethostname()
        self._waiting: deque[_Post] = deque()
        self._series: dict[str, list[_Series]] = {}
        """By the uid of what they regard, or its name where it has none."""
        self._work_there = asyncio.Event()
        self._under_way = 0
        self._free_at = 0.0
        self._serial = 0
        self._refusals: set[str] = set()

    def record(
        self,
        regarding: PodInfo | Regarding,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: PodInfo | Regarding | None = None,
    ) -> None:
        if kind == "Normal":
            self._put(_Post(self._body(regarding, kind, reason, action, note, related)))
            return
        now, seen = self._clock(), self._steady()
        about = self._series.setdefault(regarding.uid or regarding.name, [])
        other = related.uid if related is not None else ""
        for series in about:
            if not series.like(reason, action, other):
                continue
            if series.body["note"] == note:
                series.count += 1
                series.last, series.seen = now, seen
                if series.count == 2:
                    self._write(series)
                return
            self._close(series)
            about.remove(series)
            break
        body = self._body(regarding, kind, reason, action, note, related)
        about.append(_Series(body, now, seen, written_at=seen))
        self._put(_Post(body))

    def forget(self, uid: str) -> None:
        for series in self._series.pop(uid, ()):
            self._close(series)

    def _close(self, series: _Series) -> None:
        """Nothing will be added to it."""
        if series.count > series.written:
            self._write(series)

    async def run(self) -> None:
        """Posts what was recorded, until it is cancelled."""
        async with asyncio.TaskGroup() as workers:
            workers.create_task(self._sweep(), name="podwright event series")
            for _ in range(WORKERS):
                workers.create_task(self._work(), name="podwright event poster")

    async def flush(self, grace: float) -> None:
        """Waits until all is posted, at most `grace` seconds."""
        await until_idle(lambda: bool(self._waiting or self._under_way), grace)

    def _body(
        self,
        regarding: PodInfo | Regarding,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | Regarding | None,
    ) -> dict[str, Any]:
        now = self._clock()
        self._serial += 1
        controller = regarding.scheduler_name if related is None else related.scheduler_name
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{regarding.name[:230].rstrip('-.')}.{int(now * 1e9) + self._serial % 1000:x}",
                "namespace": regarding.namespace,
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
        if related is not None:
            body["related"] = _reference(related)
        return body

    def _put(self, post: _Post) -> bool:
        """Whether there was room for it."""
        if len(self._waiting) >= self._limit:
            self._dropped()
            return False
        self._waiting.append(post)
        if not self._work_there.is_set():
            self._work_there.set()
        return True

    def _write(self, series: _Series) -> None:
        if not series.queued:
            series.queued = self._put(_Post(None, series))

    async def _work(self) -> None:
        while True:
            await self._work_there.wait()
            if not self._waiting:
                self._work_there.clear()
                continue
            post = self._waiting.popleft()
            self._under_way += 1
            try:
                await self._paced()
                await self._post(post)
            except Exception:
                log.exception("posting an event failed")
                self._dropped()
            finally:
                self._under_way -= 1
                del post  # the next may be long in coming

    async def _paced(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._free_at = max(self._free_at + self._interval, now)
        # A burst may run ahead by some milliseconds: sleeping for less costs more than it saves.
        if self._free_at > now + 0.02:
            await asyncio.sleep(self._free_at - now)

    async def _post(self, post: _Post) -> None:
        try:
            await self._request(post)
        except ClusterError as error:
            failure = error
        else:
            return
        try:
            await RETRY.resume(lambda: self._request(post), failure)
        except ClusterError as error:
            if isinstance(error, ApiError) and not is_retryable(error):
                self._refused(error)
            else:
                self._dropped()

    def _request(self, post: _Post) -> Coroutine[Any, Any, None]:
        return self._create(post.body) if post.series is None else self._patch(post.series)

    def _refused(self, error: ApiError) -> None:
        """Warns once for each reason: missing rights refuse every event alike. A namespace that is being deleted is normal."""
        reason = error.reason or f"HTTP {error.status}"
        expected = is_not_found(error) or "being terminated" in str(error)
        if expected or reason in self._refusals:
            log.debug("an event was refused: %s", error)
            return
        self._refusals.add(reason)
        log.warning("an event was refused, and this is said once only: %s", error)

    async def _create(self, body: dict[str, Any] | None) -> None:
        assert body is not None
        path = f"/apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events"
        answer = await self._http.send("POST", path, orjson.dumps(body))
        if answer.status >= 300 and answer.status != 409:
            raise answer.error()

    async def _patch(self, series: _Series) -> None:
        series.queued = False
        count, last = series.count, rfc3339_micro(series.last)
        change = {"series": {"count": count, "lastObservedTime": last}}
        metadata = series.body["metadata"]
        path = EVENT.path(metadata["name"], metadata["namespace"])
        answer = await self._http.send("PATCH", path, orjson.dumps(change), STRATEGIC_PATCH)
        if answer.status == 404:
            await self._create({**series.body, **change})
        elif answer.status >= 300:
            raise answer.error()
        series.written, series.written_at = count, self._steady()

    async def _sweep(self) -> None:
        """Ends series that have gone quiet and refreshes those that go on."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for key, about in list(self._series.items()):
                going_on = [series for series in about if self._goes_on(series)]
                if going_on:
                    self._series[key] = going_on
                else:
                    del self._series[key]

    def _goes_on(self, series: _Series) -> bool:
        now = self._steady()
        quiet = now - series.seen > FINISH_SECONDS
        if series.count > series.written and (quiet or now - series.written_at > REFRESH_SECONDS):
            self._write(series)
        return not quiet


def _reference(of: PodInfo | Regarding) -> dict[str, str]:
    version, kind = (of.api_version, of.kind) if isinstance(of, Regarding) else ("v1", "Pod")
    reference = {"apiVersion": version, "kind": kind, "namespace": of.namespace, "name": of.name}
    if of.uid:
        reference["uid"] = of.uid
    if of.resource_version:
        reference["resourceVersion"] = of.resource_version
    return reference
