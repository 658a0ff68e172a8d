"""FollowUps: runs the requests that plugins want to send after a rejection or after Unreserve, beside the loop. The
follow-ups of one attempt at a pod end before those of the next begin, and before the next attempt writes anything in
PreBind. Otherwise they could undo what the next attempt relies on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from podwright.core.framework.interface import FollowUp
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.pod import PodInfo
from podwright.engine.process.interruption import is_interruption
from podwright.engine.records.log_fields import fields

log = logging.getLogger(__name__)


class FollowUps:
    """See the module. A failure is logged; the pod's next attempt handles what is left."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The newest task of each pod, by uid."""

    def __len__(self) -> int:
        """The number of pods with running follow-ups."""
        return len(self._tasks)

    def run(self, follow_ups: Sequence[FollowUp], pod: PodInfo) -> None:
        """Starts the follow-ups, one after another in one task."""
        if follow_ups:
            before = self._tasks.get(pod.uid)
            task = asyncio.create_task(_run(tuple(follow_ups), pod, before), name="podwright follow-ups")
            self._tasks[pod.uid] = task
            task.add_done_callback(partial(self._ended, pod.uid))

    async def finished(self, uid: str) -> None:
        """Waits until none are running for the pod."""
        while (task := self._tasks.get(uid)) is not None:
            await asyncio.wait((task,))
            self._ended(uid, task)

    async def drain(self, grace: float) -> bool:
        """Waits at most `grace` seconds for all running follow-ups. Returns whether they have ended."""
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
            if passes_through(error) or is_interruption(error):
                raise
            log.exception("what should follow an attempt failed", extra=fields(pod=pod))
