"""Runs the core without a cluster, on a snapshot that `loaded` has read as the operator reads a cluster.

* `evaluations`: where one pod could go, and why
* `simulation`: what would happen under one of the `hypotheses`, in a `trial` that is rolled back
* `replay`: a stream of pods on a clock that jumps from event to event
* `explain`: why a pod waits or is on its node, and what would help
"""
