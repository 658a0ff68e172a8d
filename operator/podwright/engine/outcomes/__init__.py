"""Carries out the results of attempts: binding cycles, and rejections with their statuses, events and preemption."""
