"""Objects out: what the scheduler writes to the API server, all of it behind the decisions.

* `work_queue`: writes by object, as client-go's workqueue; `queued_status`: the base of status writers on it.
* `pod_status`: the condition PodScheduled and the nominated node (kube/pod_groups/group_status writes pod groups).
* `events`: events of events.k8s.io/v1, repeated ones as series.
* `object_status`: statuses of our own kinds that change all the time; `write_limit`: how often they are written.
* `eviction`: preemption's victims, marked and deleted.
"""
