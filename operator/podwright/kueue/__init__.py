"""`podwright admission-check`: tells Kueue whether the pods of a Workload fit now, and holds their place.

    Workload with quota ─► pods of its pod sets ─► one plan for all, rolled back ─► fits: Reservations, look again,
    Ready
                                                                              └──► does not: Retry, later each time

Start with `checks.py`. The API is Kueue's v1beta2, learnt from its types and controllers in v0.19.2.
"""
