"""The scheduler's view of the cluster: one cache, which watch events and assume/forget write and plugins read.

Start with `cache`. `nodeinfo` holds a node with its pods, and `columns/` the same as NumPy columns. `podindex/` counts
placed pods by selector and affinity term, `nominator` holds nominated pods, `pod_groups` gangs and their members,
`object_store` all other objects. `transaction` tries changes out and rolls them back.
"""
