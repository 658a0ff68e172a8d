"""/debug/explain: what the scheduler knows about one pod. The pod is named by the query: `?namespace=default&pod=web-0`.

Over HTTPS, users need the right to get the path, and the right to get the pod. Few answers are computed at a time, in steps that each take
a fraction of a millisecond of the scheduler's loop. Next: engine/pod_answers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from podwright.core.objects.names import is_dns_subdomain
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.steps import MOST_ANSWERS, last_step

PATH: Final = "/debug/explain"

AnswersAboutPod = Callable[[str, str], Iterator[Mapping[str, Any] | None]]
"""(namespace, name) → steps, the last of which yields the answer; empty if nothing is known of the pod."""


def wanted_pod(request: web.Request) -> tuple[str, str] | None:
    """Namespace and name of the pod that a request of PATH is about; None for any other path, or if they are no names."""
    if request.path != PATH:
        return None
    namespace, name = request.query.get("namespace", "default"), request.query.get("pod", "")
    return (namespace, name) if is_dns_subdomain(namespace) and is_dns_subdomain(name) else None


class Explanations:
    """See the module. The ports of a server share one."""

    def __init__(self, about: AnswersAboutPod, loop: SchedulerLoop) -> None:
        self._about = about
        self._loop = loop
        self._running = 0

    async def answer(self, request: web.Request) -> web.Response:
        """The handler of PATH."""
        wanted = wanted_pod(request)
        if wanted is None:
            return web.Response(status=400, text="expected ?namespace=NAMESPACE&pod=NAME\n")
        if self._running >= MOST_ANSWERS:
            return web.Response(status=503, text="too many explanations at once\n", headers={"Retry-After": "1"})
        self._running += 1
        try:
            found = await last_step(self._loop, lambda: self._about(*wanted))
        except TimeoutError:
            return web.Response(status=503, text="the scheduler's loop does not answer\n")
        finally:
            self._running -= 1
        if not found:
            return web.Response(status=404, text=f"nothing is known of pod {'/'.join(wanted)}\n")
        return web.Response(body=orjson.dumps(found), content_type="application/json")
