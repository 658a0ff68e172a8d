"""A simulation's changes of a cluster before it schedules: nodes, pods, policies and objects. Start with `hypothesis`.

requests (HTTP) ─► hypothesis ─► changes ─► node_changes, pod_changes ─► the trial
"""
