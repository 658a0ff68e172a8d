"""The active policies with their plugins. Start with `active_policies`, which selects the policy for a pod.

`policy_plugins` builds a policy's plugins, and `reconsideration` retries pods about which another policy now decides.
"""
