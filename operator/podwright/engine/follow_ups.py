"""FollowUps: runs what plugins want to be done on the API server after a rejection or after Unreserve, beside the loop.

What follows one attempt at a pod is over before that of the next begins, and before the next writes anything in PreBind. Otherwise it could take
back what the next attempt builds on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from podwright.core.framework.interface import FollowUp
from podwright.core.objects.control_flow import CONTROL_FLOW
from podwright.core.objects.pod import PodInfo
from podwright.engine.interruption import is_interruption
from podwright.engine.log_fields import fields

log = logging.getLogger(__name__)


class FollowUps:
    """See the module. A failure is logged; the pod's next attempt meets what is left."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By uid of the pod: the newest."""

    def __len__(self) -> int:
        """For how many pods some are running."""
        return len(self._tasks)

    def run(self, follow_ups: Sequence[FollowUp], pod: PodInfo) -> None:
        """Starts them, one after the other in one task."""
        if follow_ups:
            before = self._tasks.get(pod.uid)
            task = asyncio.create_task(_run(tuple(follow_ups), pod, before), name="podwright follow-ups")
            self._tasks[pod.uid] = task
            task.add_done_callback(partial(self._ended, pod.uid))

    async def finished(self, uid: str) -> None:
        """Returns when none are running for the pod."""
        while (task := self._tasks.get(uid)) is not None:
            await asyncio.wait((task,))
            self._ended(uid, task)

    async def drain(self, grace: float) -> bool:
        """Waits at most `grace` seconds for all that are running. Returns whether they have ended."""
        running = set(self._tasks.values())
        if running:
            await asyncio.wait(running, timeout=grace)
        return all(task.done() for task in running)

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid]


async def _run(follow_ups: Sequence[FollowUp], pod: PodInfo, before: asyncio.Task[None] | None) -> None:
    if before is not None:
        await asyncio.wait((before,))
    for follow_up in follow_ups:
        try:
            await follow_up()
        except BaseException as error:
            if isinstance(error, CONTROL_FLOW) or is_interruption(error):
                raise
            log.exception("what should follow an attempt failed", extra=fields(pod=pod))
