"""Both sides of the protocol between a scheduler and its extenders.

`wire` has its messages. `server` answers a kube-scheduler. `client` calls extenders for the engine, and `clients`
builds it from the options.
"""
