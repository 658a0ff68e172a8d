"""/debug/shadow: what the policies in shadow mode have found. `?policy=NAME` leaves out all others.

Over HTTPS, users need the right to get the path, and the right to list pods: the answer names pods of all namespaces. Few answers are computed at
a time, in short steps of the scheduler's loop. Next: engine/shadow/report.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from podwright.core.objects.names import is_dns_subdomain
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.steps import MOST_ANSWERS, last_step

SHADOW_PATH: Final = "/debug/shadow"

ShadowAnswers = Callable[[str], Iterator[Mapping[str, Any] | None]]
"""The name of a policy, or "" → steps, the last of which yields the answer; empty if the policy is not in shadow mode."""


class ShadowReports:
    """See the module. The ports of a server share one."""

    def __init__(self, answers: ShadowAnswers, loop: SchedulerLoop) -> None:
        self._answers = answers
        self._loop = loop
        self._running = 0

    async def answer(self, request: web.Request) -> web.Response:
        """The handler of SHADOW_PATH."""
        name = request.query.get("policy", "")
        if name and not is_dns_subdomain(name):
            return web.Response(status=400, text="expected ?policy=NAME\n")
        if self._running >= MOST_ANSWERS:
            return web.Response(status=503, text="too many reports at once\n", headers={"Retry-After": "1"})
        self._running += 1
        try:
            found = await last_step(self._loop, lambda: self._answers(name))
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        finally:
            self._running -= 1
        if not found:
            return web.Response(status=404, text=f"policy {name} is not in shadow mode here\n")
        return web.Response(body=orjson.dumps(found), content_type="application/json")
