"""SchedulerPolicies, LocalSchedulerPolicies and KubeSchedulerConfiguration files: parsing, checks, and compilation to
the core's profiles.

    scheduler_policy, local_policy (fields; their parts in spec/) ─► compile
        ─► policy_set: which policy decides about a pod ─► policy_status

Start with `scheduler_policy`.
"""
