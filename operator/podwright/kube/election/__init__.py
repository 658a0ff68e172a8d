"""Leader election by Lease: of several instances, one decides. The others keep their caches current and stand by.

Start with `elector`. `lease` reads and writes the Lease.
"""
