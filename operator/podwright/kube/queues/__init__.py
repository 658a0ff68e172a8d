"""Queues of teams: from the objects of the API server to the core's tree, and their status back.

* `door`: takes queues into the core, and writes what they have and what their pods wait for.
"""
