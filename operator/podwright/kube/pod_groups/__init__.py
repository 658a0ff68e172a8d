"""Pod groups of all APIs, from discovery to status.

* `door`: takes the groups of an API that is served into the object store (see `watch.served_kinds`).
* `phases`: what the status fields of custom resources say, counted from the pods that come in.
* `group_status`: writes conditions and fields of pod groups.
* `foreign_pod_lister`: finds members that ask for another scheduler.

What a group's change means for its pods is in engine/attempts/gangs.
"""
