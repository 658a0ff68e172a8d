"""The objects of resource.k8s.io/v1, parsed once: slices with devices, device classes, claims, and rules that taint
devices.

Parsing is total: a part that cannot be understood is left out and named in `problems`, and nothing is raised.
"""
