"""Explains one pod, or one group of pods: why it is where it is, or why it waits, and the least change that would help.

    subject ─► what keeps it from being scheduled at all? ─► verdicts: each filter on each node
        ─► causes, nearest node first
        └─► changes: candidates of the pod and of the cluster, each proved by a decision of the production core

Everything here runs in the process of the person who asks, on a copy of the cluster. Start with `explanation`.
"""
