"""Topology spread constraints: the plugin PodTopologySpread and its parts. Start with `pod_topology_spread`.

`args` decodes the plugin's arguments, `constraints` finds the constraints of a pod, `filtering` applies hard
constraints and `scoring` soft ones. The counts of matching pods come from `core/state/podindex`.
"""
