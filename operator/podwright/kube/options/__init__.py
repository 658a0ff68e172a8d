"""The options of a scheduler process. Start with `options`.

`definitions` says how an option is defined, `values` how its value is written, and `former_flags` and `unused` have
kube-scheduler's other flags.
"""
