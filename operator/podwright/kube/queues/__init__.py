"""Queues of teams: from the objects of the API server to the core's tree, and their status back.

* `door`: takes SchedulingQueues into the core.
* `statuses`: writes what queues have and what their pods wait for.
"""
