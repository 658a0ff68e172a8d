"""The policies on the API server: applied to the engine when they change, and told what became of them.

* `controller`: takes events and lists in any order, applies changes in turns, and checks again what is due. `turns`: whose turn it is.
* `kinds`: what differs between SchedulerPolicies and LocalSchedulerPolicies.
* `statuses`: the statuses, written when they change.
"""
