"""What the scheduler knows of the cluster: one cache, written by events and by assume/forget, read by plugins.

`cache` is the entrance; `nodeinfo` holds a node with its pods, `columns/` the same as NumPy columns, `podindex` the
counts of placed pods by selector and affinity term, `nominator` the nominated pods, `store` all other objects.
"""
