"""FollowUps: runs what plugins want to be done on the API server after a rejection or after Unreserve, beside the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from podwright.core.framework.interface import FollowUp
from podwright.core.objects.pod import PodInfo
from podwright.engine.log_fields import fields

log = logging.getLogger(__name__)


class FollowUps:
    """See the module. A failure is logged; the pod's next attempt meets what is left."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are running."""
        return len(self._tasks)

    def run(self, follow_ups: Sequence[FollowUp], pod: PodInfo) -> None:
        """Starts them, one after the other in one task."""
        if follow_ups:
            task = asyncio.create_task(_run(tuple(follow_ups), pod), name="podwright follow-ups")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _run(follow_ups: Sequence[FollowUp], pod: PodInfo) -> None:
    for follow_up in follow_ups:
        try:
            await follow_up()
        except Exception:
            log.exception("what should follow an attempt failed", extra=fields(pod=pod))
