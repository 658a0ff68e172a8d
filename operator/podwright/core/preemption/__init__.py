"""Preemption: the victims to evict so that a pod fits on a node, and the node where that costs least."""
