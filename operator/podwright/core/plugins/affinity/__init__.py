"""Inter-pod affinity: the plugin InterPodAffinity and its parts. Start with `inter_pod_affinity`.

`filtering` applies required terms, `scoring` preferred ones. The counts of matching pods come from
`core/state/podindex`.
"""
