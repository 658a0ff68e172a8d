"""The paths of the page, for every server that has it: the operator's, and that of `podwright simulate --serve`.

| path | answer | | --- | --- | | /page/ | the page; its files are beside it | | /page/node?name=NODE | what fills a
node | | /page/policy?name=POLICY | the state of a policy, which is named NAMESPACE/NAME if it is local | |
/page/plan?name=POLICY | the last plan of a RebalancePolicy | | /page/picture?name=POLICY&resource=NAME | its picture,
as SVG | | /page/search?text=TEXT | the pods and pod groups whose names contain the text | | /page/stream | server-sent
events: `nodes`, `change`, `decisions`, `queue`, `policies`, `queues`, `plans`, `history`, `stale` |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from podwright.engine.process.steps import Steps
from podwright.engine.view.node_details import about_node
from podwright.engine.view.policies import about_policy
from podwright.engine.view.rebalancing import about_plan, plan_picture
from podwright.engine.view.search import search
from podwright.kube.serve.answers.steps import Answer, Asker, SteppedAnswers
from podwright.kube.serve.connections.listener import LASTS
from podwright.kube.serve.page.feed import Feed, Viewer, event
from podwright.kube.serve.page.files import HEADERS, send_file
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.page.sight import FILES, NODE, NOTHING, PICTURE, PLAN, POLICY, SEARCH, SIGHT, STREAM

STREAM_SECONDS: Final = 1800.0
"""How long a stream lasts. Then the page asks for another, and its right to it is reviewed again."""
SILENT_SECONDS: Final = 10.0
"""The longest time without a message, so that the page and proxies know that the stream is alive."""

WRITE_SECONDS: Final = 15.0
"""How long it may take until somebody has read a message. Then the stream is broken off."""


class Page:
    """See the module. The ports of a server share one."""

    def __init__(self, shown: Callable[[], Shown | None], asker: Asker) -> None:
        self._feed = Feed(shown, asker)
        self._shown = shown
        self._answers = SteppedAnswers(asker, "answers", headers=HEADERS)

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        return [
            web.get(FILES, _to_page),
            web.get(STREAM, self._stream),
            web.get(NODE, self._node),
            web.get(POLICY, self._policy),
            web.get(SEARCH, self._search),
            web.get(PLAN, self._plan),
            web.get(PICTURE, self._picture),
            web.get(f"{FILES}/{{name:[a-z_]*(?:[.][a-z]+)?}}", send_file),
        ]

    @property
    def viewers(self) -> int:
        """How many people look at the page. May be called in any thread."""
        return self._feed.viewers

    async def close(self) -> None:
        """Ends the feed. The connections of viewers are closed by then."""
        await self._feed.close()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        if self._feed.full:
            return web.Response(status=503, text="too many people look at the page\n", headers={"Retry-After": "5"})
        viewer = Viewer(request.get(SIGHT, NOTHING))
        response = web.StreamResponse(
            headers={
                **HEADERS,
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        response.force_close()
        lasts = request.app.get(LASTS)
        if lasts is not None:
            lasts(request, STREAM_SECONDS + SILENT_SECONDS)
        self._feed.add(viewer)
        try:
            await response.prepare(request)
            await response.write(event("hello", {"seesPods": viewer.sight.namespace is not None}))
            await _send_all(viewer, response)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._feed.remove(viewer)
        return response

    async def _answer(self, unknown: str, about: Callable[[Shown], Steps[Answer]]) -> web.Response:
        """Returns the answer of `about` on the shown cluster, or that it is `unknown`."""

        def begin() -> Steps[Answer]:
            shown = self._shown()
            return {} if shown is None else (yield from about(shown))

        return await self._answers.answer(begin, unknown)

    async def _node(self, request: web.Request) -> web.Response:
        """The contents of a node."""
        name, sight = request.query.get("name", ""), request.get(SIGHT, NOTHING)
        return await self._answer("there is no such node", lambda shown: about_node(shown.cache, name, sight.shows))

    async def _policy(self, request: web.Request) -> web.Response:
        """The state of a policy."""
        key, sight = request.query.get("name", ""), request.get(SIGHT, NOTHING)
        namespace = key.rpartition("/")[0]
        if namespace and not sight.shows(namespace):
            raise web.HTTPNotFound

        def about(shown: Shown) -> Steps[Answer]:
            yield
            return about_policy(shown.policies, key, faults=sight.shows(namespace))

        return await self._answer("there is no such policy", about)

    async def _plan(self, request: web.Request) -> web.Response:
        """The last plan of a RebalancePolicy."""
        name, sight = request.query.get("name", ""), request.get(SIGHT, NOTHING)

        def about(shown: Shown) -> Steps[Answer]:
            return (yield from about_plan(shown.rebalancing, name, sight.shows)) if shown.rebalancing else {}

        return await self._answer("there is no such policy", about)

    async def _picture(self, request: web.Request) -> web.Response:
        """The nodes before and after the last plan of a RebalancePolicy."""
        name, resource = request.query.get("name", ""), request.query.get("resource", "")

        def about(shown: Shown) -> Steps[Answer]:
            return (yield from plan_picture(shown.rebalancing, name, resource)) if shown.rebalancing else ""

        return await self._answer("there is no such plan", about)

    async def _search(self, request: web.Request) -> web.Response:
        """Pods and pod groups by a part of their name."""
        text, sight = request.query.get("text", "").strip().lower(), request.get(SIGHT, NOTHING)

        def about(shown: Shown) -> Steps[Answer]:
            return (yield from search(shown.cache, shown.pods(), text, sight.shows)) if text else {}

        return await self._answer("there is no text to search for", about)


async def _send_all(viewer: Viewer, response: web.StreamResponse) -> None:
    """Sends what comes for the viewer until the stream is over."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + STREAM_SECONDS
    while loop.time() < ends:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                message = await viewer.messages.get()
        except TimeoutError:
            message = b": nothing new\n\n"
        if message is None:
            return
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(message)


async def _to_page(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=308, headers={**HEADERS, "Location": "page/"})
