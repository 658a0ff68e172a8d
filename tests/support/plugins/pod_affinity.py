"""Terms, nodes and pods for tests of InterPodAffinity."""

from __future__ import annotations

from support.objects.builders import make_node, make_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key=ZONE, app="x", **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms, **weighted):
    return {"affinity": {"podAffinity": rules(terms, **weighted)}}


def away(*terms, **weighted):
    return {"affinity": {"podAntiAffinity": rules(terms, **weighted)}}


def rules(terms, weight=None):
    if weight is None:
        return {REQUIRED: list(terms)}
    return {PREFERRED: [{"weight": weight, "podAffinityTerm": each} for each in terms]}


def node(name, zone=None):
    return make_node(name, labels={HOSTNAME: name, **({} if zone is None else {ZONE: zone})})


def running(name, on, app="x", namespace="default", spec=None, **more):
    return make_pod(name, namespace=namespace, labels={"app": app}, node=on, spec=spec, **more)


NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("none")]
"""Two nodes in zone a, one in b, and one in no zone."""
