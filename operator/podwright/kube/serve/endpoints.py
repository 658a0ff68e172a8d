"""The paths of the server and their answers. Everything here runs in the server's thread; `Content`
(content.py) is what it asks the scheduler.

| path | answer |
| --- | --- |
| /livez, /healthz | whether the scheduler's loop runs |
| /readyz | whether the scheduler can decide, by named checks |
| /livez/CHECK and so on | one check |
| /metrics, /metrics/resources | the metrics of the process, and of pods |
| /configz | the options and profiles in use |
| /debug/explain | what is known of one pod |
| /page/ | the page, see page/routes.py |
| /debug/shadow | what the policies in shadow mode have found |
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from podwright.core.objects.dataclass import dataclass
from podwright.engine.records.families import Snapshot
from podwright.engine.records.log_fields import V6
from podwright.kube.serve.answers import pod_resources
from podwright.kube.serve.answers.checks import PING, CheckReport, Problems, report, report_one
from podwright.kube.serve.answers.explanations import PATH, explained
from podwright.kube.serve.answers.pages import Body, LongAnswer, decompressed
from podwright.kube.serve.answers.shadow_reports import SHADOW_PATH, reported
from podwright.kube.serve.answers.steps import SteppedAnswers
from podwright.kube.serve.content import Content
from podwright.kube.serve.event_loops import BEAT_SECONDS, SchedulerLoop
from podwright.kube.serve.page.shown import Shown

if TYPE_CHECKING:
    from podwright.kube.serve.page.routes import Page as LivePage

log = logging.getLogger(__name__)

LOOP: Final = "scheduling-loop"
"""The check of the scheduler's loop, which the server makes itself."""
LONG_ANSWERS: Final = 16
"""How many long answers are sent at once; more are refused."""
READY_SECONDS: Final = 1.0
"""How long /readyz waits for the scheduler's loop before it uses the results of the last time."""
SILENT_BEATS: Final = 5
"""After this many beats without an answer of the scheduler's loop, older results are no longer used."""
RESULTS_SECONDS: Final = 30.0
"""How old results may be. Kubelets ask every 10 seconds by default."""
CONTENT_SECONDS: Final = 10.0
"""How long the other paths wait for the scheduler's loop."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Endpoints:
    """See the module. `routes` go into the application of each port, which all share the long answers."""

    def __init__(self, content: Content, loop: SchedulerLoop) -> None:
        self._content = content
        self._loop = loop
        self._problems: Problems = {}
        """The checks of /readyz when the scheduler's loop last answered."""
        self._answered_at = -math.inf
        """When the scheduler's loop last answered, by the steady clock."""
        self._explanations = SteppedAnswers(loop, "explanations")
        self._reports = SteppedAnswers(loop, "reports")
        self._page = None if content.shown is None else _live_page(content.shown, loop)
        self._long_answers = 0
        self._metrics = LongAnswer(self._render_metrics, time.monotonic)
        self._resources = LongAnswer(self._render_resources, time.monotonic)

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        found = []
        for name, problems in (("livez", self._alive), ("healthz", self._alive), ("readyz", self._ready)):
            found.append(web.get(f"/{name}", partial(_all_checks, name, problems)))
            found.append(web.get(f"/{name}/{{check}}", partial(_one_check, problems)))
        pages = (
            ("/metrics", self._metrics, CONTENT_TYPE_LATEST),
            (pod_resources.RESOURCES_PATH, self._resources, pod_resources.CONTENT_TYPE),
        )
        found += [web.get(path, partial(self._long_answer, page, content)) for path, page, content in pages]
        found.append(web.get("/configz", self._configz))
        if self._content.about_pod is not None:
            found.append(web.get(PATH, partial(explained, self._content.about_pod, self._explanations)))
        if self._page is not None:
            found += self._page.routes()
        if self._content.shadow is not None:
            found.append(web.get(SHADOW_PATH, partial(reported, self._content.shadow, self._reports)))
        return found

    @property
    def viewers(self) -> int | None:
        """How many people look at the page; None if it is not served. May be called in any thread."""
        return None if self._page is None else self._page.viewers

    async def close(self) -> None:
        """Ends the tasks that run beside requests."""
        if self._page is not None:
            await self._page.close()

    # Checks

    async def _alive(self) -> Problems:
        return {PING: "", LOOP: self._loop.problem}

    async def _ready(self) -> Problems:
        try:
            self._problems = await self._loop.call(self._content.checks, READY_SECONDS)
        except TimeoutError:
            return self._old_results()
        self._answered_at = time.monotonic()
        return {**await self._alive(), **self._problems}

    def _old_results(self) -> Problems:
        """The last results while the loop is only busy; failed checks if the results are too old."""
        age = time.monotonic() - self._answered_at
        silent = self._loop.unanswered
        if silent < SILENT_BEATS and age <= RESULTS_SECONDS:
            log.log(V6, "/readyz uses old results, because the scheduler's loop is busy")
            return {PING: "", LOOP: "", **self._problems}
        seconds = max(READY_SECONDS, silent * BEAT_SECONDS)
        problem = f"the scheduling loop has not answered for {seconds:.0f} s"
        return {**dict.fromkeys((PING, LOOP, *self._problems), problem), PING: ""}

    # Long answers

    async def _long_answer(self, page: LongAnswer, content_type: str, request: web.Request) -> web.StreamResponse:
        if self._long_answers >= LONG_ANSWERS:
            return web.Response(status=503, text="too many clients are reading metrics\n", headers={"Retry-After": "1"})
        self._long_answers += 1
        try:
            body = await page.body()
            return await _send(request, body, content_type)
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        finally:
            self._long_answers -= 1

    async def _render_metrics(self) -> AsyncIterator[bytes]:
        for snapshot in await self._loop.compute(self._content.metrics, CONTENT_SECONDS):
            yield generate_latest(_Registry(snapshot))
            await asyncio.sleep(0)  # probes are answered in between

    async def _render_resources(self) -> AsyncIterator[bytes]:
        pages = pod_resources.pages(self._content.pods)
        while (text := await self._loop.call(lambda: next(pages, None), CONTENT_SECONDS)) is not None:
            yield text

    async def _configz(self, _request: web.Request) -> web.Response:
        try:
            snapshot = await self._loop.call(self._content.configuration, CONTENT_SECONDS)
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        return web.Response(body=orjson.dumps(snapshot()), content_type="application/json")


@dataclass(frozen=True, slots=True)
class _Registry:
    """A registry in the form that prometheus_client expects."""

    collect: Snapshot


async def _all_checks(name: str, problems: Callable[[], Awaitable[Problems]], request: web.Request) -> web.Response:
    excluded = request.query.getall("exclude", [])
    return _answer(report(name, await problems(), verbose="verbose" in request.query, excluded=excluded))


async def _one_check(problems: Callable[[], Awaitable[Problems]], request: web.Request) -> web.Response:
    found, name = await problems(), request.match_info["check"]
    if name not in found:
        raise web.HTTPNotFound
    return _answer(report_one(name, found[name]))


def _live_page(shown: Callable[[], Shown | None], loop: SchedulerLoop) -> LivePage:
    from podwright.kube.serve.page.routes import Page as LivePage  # noqa: PLC0415 -- a start without it is quicker

    return LivePage(shown, loop)


def _answer(given: CheckReport) -> web.Response:
    return web.Response(status=200 if given.healthy else 500, text=given.text)


async def _send(request: web.Request, body: Body, content_type: str) -> web.StreamResponse:
    """Sends a body piece by piece, so that a slow reader does not fill a buffer."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    response.force_close()
    compressed = "gzip" in request.headers.get("Accept-Encoding", "")
    if compressed:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    if request.method != "HEAD":
        for piece in body if compressed else decompressed(body):
            await response.write(piece)
    await response.write_eof()
    return response
