"""The scheduling queue: which pending pod is scheduled next, and when a rejected pod is retried. Start at
`scheduling_queue`.
"""

from podwright.core.queue.queued_pod import DEFAULT_WAITS, QueuedPod, Waits
from podwright.core.queue.room import RoomCheck
from podwright.core.queue.scheduling_queue import SchedulingQueue

__all__ = ["DEFAULT_WAITS", "QueuedPod", "RoomCheck", "SchedulingQueue", "Waits"]
