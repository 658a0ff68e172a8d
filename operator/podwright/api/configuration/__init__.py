"""Files of the kind KubeSchedulerConfiguration, in every version that kube-scheduler has had.

    file ─► documents (strict YAML) ─► versions (to v1) ─► schema (fields, bounds) ─► load (profiles for the core)

Start with `load.load_configuration`.
"""
