"""Allocates devices to claims on one node, as kube-scheduler 1.37 does.

    problem (what claims ask for) ─► candidates (what a node offers for it) ─► search
        ─► allocation (what is written to the claims)

`verdicts` keeps the results for all nodes. Source: k8s.io/dynamic-resource-allocation/structured and kube-scheduler's
plugin DynamicResources.
"""
