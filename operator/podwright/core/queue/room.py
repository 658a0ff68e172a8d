"""True if the group of a waiting pod has room: an event that cannot change that does not retry the pod."""

from __future__ import annotations

from collections.abc import Callable

from podwright.core.objects.pod import PodInfo
from podwright.core.queue.queued_pod import Place, QueuedPod

RoomCheck = Callable[[PodInfo], frozenset[str] | None]
"""The plugins because of which the pod's group has no room now, so that an attempt would fail; None if it may have
room.
"""


def unchecked(_pod: PodInfo) -> None:
    """The check of a queue without groups."""


def lacks_room(queued: QueuedPod, check: RoomCheck) -> bool:
    """True to leave a rejected pod alone: its group has no room, and it waits for the events of all plugins that can
    change that.
    """
    if not queued.pod.group or queued.place is not Place.UNSCHEDULABLE or queued.pending_plugins:
        return False
    plugins = check(queued.pod)
    return plugins is not None and plugins <= queued.unschedulable_plugins
