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

PATH: Final = "/debug/explain"

AnswersAboutPod = Callable[[str, str], Steps[Answer]]
"""(namespace, name) → what is known of the pod."""


def wanted_pod(request: web.Request) -> tuple[str, str] | None:
    """Namespace and name of the pod in a request of PATH; None for any other path, or if they are not valid names."""
    if request.path != PATH:
        return None
    namespace, name = request.query.get("namespace", "default"), request.query.get("pod", "")
    return (namespace, name) if is_dns_subdomain(namespace) and is_dns_subdomain(name) else None


async def explained(about: AnswersAboutPod, answers: SteppedAnswers, request: web.Request) -> web.Response:
    """The answer to a request of PATH."""
    wanted = wanted_pod(request)
    if wanted is None:
        return web.Response(status=400, text="expected ?namespace=NAMESPACE&pod=NAME\n")
    return await answers.answer(lambda: about(*wanted), f"nothing is known of pod {'/'.join(wanted)}")
