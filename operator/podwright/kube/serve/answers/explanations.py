"""/debug/explain: what the scheduler knows about one pod. The pod is named by the query:
`?namespace=default&pod=web-0`.

Over HTTPS, users need the right to get the path, and the right to get the pod. Few answers are computed at a time, in
steps that each take a fraction of a millisecond of the scheduler's loop. Next: engine/view/pod_answers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from podwright.core.objects.names import is_dns_subdomain
from podwright.engine.process.steps import Steps
from podwright.kube.serve.answers.steps import Answer, SteppedAnswers
from podwright.kube.serve.event_loops import SchedulerLoop

PATH: Final = "/debug/explain"

AnswersAboutPod = Callable[[str, str], Steps[Answer]]
"""(namespace, name) → what is known of the pod."""


def wanted_pod(request: web.Request) -> tuple[str, str] | None:
    """Namespace and name of the pod in a request of PATH; None for any other path, or if they are not valid names."""
    if request.path != PATH:
        return None
    namespace, name = request.query.get("namespace", "default"), request.query.get("pod", "")
    return (namespace, name) if is_dns_subdomain(namespace) and is_dns_subdomain(name) else None


class Explanations:
    """See the module. The ports of a server share one."""

    def __init__(self, about: AnswersAboutPod, loop: SchedulerLoop) -> None:
        self._about = about
        self._stepped = SteppedAnswers(loop, "explanations")

    async def answer(self, request: web.Request) -> web.Response:
        """The handler of PATH."""
        wanted = wanted_pod(request)
        if wanted is None:
            return web.Response(status=400, text="expected ?namespace=NAMESPACE&pod=NAME\n")
        return await self._stepped.answer(lambda: self._about(*wanted), f"nothing is known of pod {'/'.join(wanted)}")
