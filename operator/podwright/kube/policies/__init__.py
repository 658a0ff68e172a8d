"""The policies on the API server: applies them to the engine when they change, and writes their statuses.

* `controller`: takes events and lists in any order, applies changes in turns, and checks again what is due. `turns`:
  whose turn it is.
* `kinds`: what differs between SchedulerPolicies and LocalSchedulerPolicies.
* `statuses`: the statuses, written when they change.
"""
