"""Pod groups of both APIs, from discovery to status.

* `served_apis`: which APIs are served, as they come and go; their groups are reflected into the object store.
* `phases`: what the status fields of the custom resource say, counted from the pods that come in.
* `group_status`: writes conditions and fields of pod groups.
* `foreign_pod_lister`: finds members that ask for another scheduler.

What a group's change means for its pods is in engine/gangs.
"""
