"""Preemption: which pods of lower priority would have to go so that a pod fits on a node, and which node costs least."""
