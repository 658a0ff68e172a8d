"""Objects that any user of a namespace may create, and that cost a scheduler a lot: each function makes one of a given
size.

The pods are parts of a spec, without containers. They are valid for the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.objects.builders import make_policy

Spec = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def spread_constraints(count: int, action: str = "ScheduleAnyway") -> Spec:
    """Each has a topology key of its own, which no node has."""
    selector = {"matchLabels": {"app": "hostile"}}
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": f"example.com/key-{i}",
                "whenUnsatisfiable": action,
                "labelSelector": selector,
            }
            for i in range(count)
        ]
    }


def _term(number: int) -> Spec:
    """A term that matches every pod of every namespace, except those with one value of a label."""
    expression = {"key": "app", "operator": "NotIn", "values": [f"v-{number}"]}
    return {
        "topologyKey": HOSTNAME,
        "namespaceSelector": {},
        "labelSelector": {"matchExpressions": [expression]},
    }


def required_anti_affinity(count: int) -> Spec:
    """Required NotIn terms in all namespaces."""
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [_term(i) for i in range(count)]}}}


def anti_affinity_with_own_labels(count: int) -> Spec:
    """Required terms in all namespaces, each of which asks for a label of its own, which no pod has."""
    terms = []
    for i in range(count):
        expression = {"key": f"key-{i}", "operator": "In", "values": [f"v-{i}"]}
        terms.append({**_term(0), "labelSelector": {"matchExpressions": [expression]}})
    return {"affinity": {"podAntiAffinity": {_REQUIRED: terms}}}


def preferred_affinity(count: int) -> Spec:
    """Preferred NotIn terms in all namespaces."""
    terms = [{"weight": 1 + i % 100, "podAffinityTerm": _term(i)} for i in range(count)]
    return {"affinity": {"podAffinity": {_PREFERRED: terms}}}


def preferred_in_selected_namespaces(count: int) -> Spec:
    """Each preferred term selects namespaces by labels of its own. All namespaces match."""
    terms = []
    for i in range(count):
        expression = {"key": "team", "operator": "NotIn", "values": [f"v-{i}"]}
        terms.append(
            {"weight": 1, "podAffinityTerm": {**_term(0), "namespaceSelector": {"matchExpressions": [expression]}}}
        )
    return {"affinity": {"podAffinity": {_PREFERRED: terms}}}


def many_requirements(count: int) -> Spec:
    """One required anti-affinity term with so many requirements."""
    expressions = [{"key": "app", "operator": "NotIn", "values": [f"v-{i}"]} for i in range(count)]
    term = {**_term(0), "labelSelector": {"matchExpressions": expressions}}
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}}


def _node_affinity(terms: Sequence[Mapping[str, Any]]) -> Spec:
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def match_fields_in(count: int, nodes: Sequence[str]) -> Spec:
    """One term for each of the first `count` node names."""
    names = [nodes[i] if i < len(nodes) else f"absent-{i}" for i in range(count)]
    return _node_affinity(
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    )


def match_fields_not_in(count: int) -> Spec:
    """One term with one requirement for each name."""
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [f"absent-{i}"]} for i in range(count)]
    return _node_affinity([{"matchFields": fields}])


def match_fields_not_in_terms(count: int) -> Spec:
    """A term for each name."""
    return _node_affinity(
        [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [f"node-{i:05}"]}]}
            for i in range(count)
        ]
    )


def bounds(count: int) -> Spec:
    """Terms with a bound for a label that every node has, with a value of its own."""
    return _node_affinity(
        [{"matchExpressions": [{"key": HOSTNAME, "operator": "Gt", "values": [str(i)]}]} for i in range(count)]
    )


def volume(count: int) -> dict[str, dict[str, Any]]:
    """A claim, and the volume to which it is bound, by kind. The volume has this many node affinity terms."""
    terms = [
        {"matchExpressions": [{"key": f"example.com/key-{i}", "operator": "Exists"}]}
        if i % 2
        else {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"node-{i:05}"]}]}
        for i in range(count)
    ]
    modes = ["ReadWriteOnce"]
    return {
        "PersistentVolume": {
            "metadata": {"name": "volume"},
            "spec": {
                "accessModes": modes,
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "default", "name": "claim"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        },
        "PersistentVolumeClaim": {
            "metadata": {
                "name": "claim",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"accessModes": modes, "volumeName": "volume", "resources": {"requests": {"storage": "1Gi"}}},
        },
    }


def node_selector(count: int) -> Spec:
    """No node has any of the keys."""
    return {"nodeSelector": {f"example.com/key-{i}": "true" for i in range(count)}}


def node_affinity_terms(count: int) -> Spec:
    """Each term has a key of its own, which no node has."""
    return _node_affinity(
        [{"matchExpressions": [{"key": f"example.com/key-{i}", "operator": "Exists"}]} for i in range(count)]
    )


def preferred_node_terms(count: int) -> Spec:
    """Each term has a key of its own, which no node has."""
    terms = [
        {
            "weight": 1 + i % 100,
            "preference": {"matchExpressions": [{"key": f"example.com/key-{i}", "operator": "Exists"}]},
        }
        for i in range(count)
    ]
    return {"affinity": {"nodeAffinity": {_PREFERRED: terms}}}


def extended_resources(count: int) -> Spec:
    """Requests of resources that no node offers."""
    amounts = {f"example.com/resource-{i}": "1" for i in range(count)}
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}]}


def tolerations(number: int) -> Spec:
    """A toleration list that no other pod has."""
    return {"tolerations": [{"key": f"example.com/tolerated-{number}", "operator": "Exists"}]}


def timestamp_taint(number: int) -> Spec:
    """The taint of an autoscaler, with a time as its value."""
    return {
        "key": "DeletionCandidateOfClusterAutoscaler",
        "value": str(1_700_000_000 + number),
        "effect": "PreferNoSchedule",
    }


def policy(number: int) -> dict[str, Any]:
    """A policy for the pods with one value of a label."""
    expression = {"key": "team", "operator": "In", "values": [f"team-{number}"]}
    name = f"policy-{number:04}"
    match = {"podSelector": {"matchExpressions": [expression]}}
    return make_policy(name, 1, name, match=match, strategy={"type": "LeastAllocated"})


def many_tolerations(count: int) -> Spec:
    """Tolerations of different taints, which no node has."""
    return {"tolerations": [{"key": f"example.com/tolerated-{i}", "operator": "Exists"} for i in range(count)]}


def volumes(count: int) -> Spec:
    """Claims that do not exist."""
    return {
        "volumes": [{"name": f"v-{i}", "persistentVolumeClaim": {"claimName": f"absent-{i}"}} for i in range(count)]
    }


def resource_claims(count: int) -> Spec:
    """Resource claims that do not exist. The API server admits 32."""
    return {"resourceClaims": [{"name": f"c-{i}", "resourceClaimName": f"absent-{i}"} for i in range(count)]}


def host_ports(count: int) -> Spec:
    """Host ports of one container."""
    ports = [{"containerPort": 1 + i, "hostPort": 1 + i} for i in range(count)]
    return {"containers": [{"name": "main", "image": "app", "ports": ports}]}


def image(number: int) -> str:
    """The name of an image."""
    return f"registry.example/image-{number}:1"


def containers(count: int, first: int = 0) -> Spec:
    """Containers with different images, whose numbers begin with `first`."""
    return {"containers": [{"name": f"c-{i}", "image": image(first + i)} for i in range(count)]}


def disruption_budget(number: int) -> dict[str, Any]:
    """A budget that selects every pod of its namespace, except those with one value of a label."""
    expression = {"key": "app", "operator": "NotIn", "values": [f"v-{number}"]}
    return {
        "metadata": {"name": f"budget-{number}", "namespace": "default"},
        "spec": {"selector": {"matchExpressions": [expression]}},
        "status": {"disruptionsAllowed": 1},
    }


def terms_from(first: int, count: int) -> Spec:
    """Required NotIn terms in all namespaces, with values that begin with this number."""
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [_term(i) for i in range(first, first + count)]}}}


LOCAL_CLASS: Spec = {
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def local_volume(number: int, operator: str, node: str) -> Spec:
    """A free volume. `operator` and `node`: its requirement on the node's name."""
    expression = {"key": HOSTNAME, "operator": operator, "values": [node]}
    return {
        "metadata": {"name": f"local-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{10 + number % 7}Gi"},
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
        "status": {"phase": "Available"},
    }


def unbound_claim(number: int) -> Spec:
    return {
        "metadata": {"name": f"unbound-{number}", "namespace": "default", "uid": f"unbound-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": f"{1 + number % 9}Gi"}},
        },
    }


def mounting(claims: int) -> Spec:
    """The volumes of the first claims of `unbound_claim`."""
    return {
        "volumes": [
            {"name": f"v-{number}", "persistentVolumeClaim": {"claimName": f"unbound-{number}"}}
            for number in range(claims)
        ]
    }


def service(number: int, value: str) -> Spec:
    """A Service that selects no pod."""
    return {
        "metadata": {"name": f"service-{number}", "namespace": "default"},
        "spec": {"selector": {"app": f"service-{number}", "version": value}},
    }
