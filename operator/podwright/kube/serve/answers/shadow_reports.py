"""/debug/shadow: the reports of the policies in shadow mode. `?policy=NAME` leaves out all others.

Over HTTPS, users need the right to get the path, and the right to list pods: the answer names pods of all namespaces.
Few answers are computed at a time, in short steps of the scheduler's loop. Next: engine/shadow/report.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from podwright.core.objects.names import is_dns_subdomain
from podwright.engine.process.steps import Steps
from podwright.kube.serve.answers.steps import Answer, SteppedAnswers

SHADOW_PATH: Final = "/debug/shadow"

ShadowAnswers = Callable[[str], Steps[Answer]]
"""The name of a policy, or "" → the report; empty if the policy is not in shadow mode."""


async def reported(of_policy: ShadowAnswers, answers: SteppedAnswers, request: web.Request) -> web.Response:
    """The answer to a request of SHADOW_PATH."""
    name = request.query.get("policy", "")
    if name and not is_dns_subdomain(name):
        return web.Response(status=400, text="expected ?policy=NAME\n")
    return await answers.answer(lambda: of_policy(name), f"policy {name} is not in shadow mode here")
