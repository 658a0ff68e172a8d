"""The scheduling queue: which pending pod is tried next, and when a rejected one is tried again."""

from podwright.core.queue.scheduling_queue import DEFAULT_WAITS, QueuedPod, SchedulingQueue, Waits

__all__ = ["DEFAULT_WAITS", "QueuedPod", "SchedulingQueue", "Waits"]
