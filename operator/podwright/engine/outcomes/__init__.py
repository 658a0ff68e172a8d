"""What becomes of attempts: binding cycles, and rejections with their statuses, events and preemption."""
