"""The real side of the engine's ports: everything that talks to the API server, by package.

* `client/`: requests, errors, retries, lists, credentials.
* `watch/`: objects in; `write/`: Bindings, statuses, events and evictions out.
* `pod_groups/`: the PodGroup APIs, from discovery to status.
* `serve/`: our own HTTP server, with health and metrics.
* `api_cluster`: the `Cluster` that plugins call; `policies`: SchedulerPolicies and their status.
* `runtime`: starts and stops everything; `parts` builds it; `background` runs its tasks.
* `options`: the definition of each option, and how their values are written. `kinds`: API resources. `signals`: SIGTERM
  and SIGINT.
"""
