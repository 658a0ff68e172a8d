"""Builds policy sets of raw policies, and asks which policy decides about a pod."""

from __future__ import annotations

from types import MappingProxyType

from podwright.api.policy_set import PolicySet
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from support.engine.stand_ins import STAND_INS

GOOD = {"strategy": {"type": "MostAllocated"}}
BAD = {"strategy": {"type": "Best"}}
NO_LABELS = MappingProxyType({})


def policy(name, spec, generation=1, uid="u", created=""):
    metadata = {"name": name, "generation": generation, "uid": f"{uid}-{name}"}
    return {"metadata": metadata | ({"creationTimestamp": created} if created else {}), "spec": spec}


def pod(labels=None, scheduler="podwright", namespace="default", *, priority_class="", names=""):
    """`names`: the policy that the pod's annotation names."""
    annotations = {"podwright.dev/policy": names} if names else {}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c"}], "priorityClassName": priority_class}
    metadata = {"name": "p", "namespace": namespace, "uid": "1", "labels": labels or {}, "annotations": annotations}
    return parse_pod({"metadata": metadata, "spec": spec})


def nested(depth):
    found = {}
    for _ in range(depth):
        found = {"podSelector": found}
    return found


def build(*raws, **options):
    policies = PolicySet(STAND_INS, Features(), **options)
    for raw in raws:
        policies.apply(raw)
    return policies


def chosen(policies, a_pod=None, namespace_labels=NO_LABELS):
    found = policies.select(a_pod or pod(), namespace_labels)
    return None if found is None else found.name


def select_pods(**labels):
    return {"podSelector": {"matchLabels": labels}}


def select_namespaces(**labels):
    return {"namespaceSelector": {"matchLabels": labels}}
