"""The manifests and their overlays: the API server accepts them, they agree with themselves, and their pods meet the
strictest standards.
"""

from __future__ import annotations

import copy
from functools import cache

import pytest
import yaml

from podwright.testing import KubectlError
from support.control_plane import operator_process as kit

MANIFESTS = kit.BASE.parent
OVERLAYS = {path.name: path for path in sorted((MANIFESTS / "overlays").iterdir())}
WITH_PODS = {"base": kit.BASE, **{name: path for name, path in OVERLAYS.items() if name != "replace-default"}}
NAMESPACE = "podwright-system"
FOREIGN_KINDS = ("ServiceMonitor", "PrometheusRule")
"""Kinds of Prometheus Operator, which the control plane of the tests does not serve."""


@pytest.fixture(scope="module")
def cluster(control_plane):
    kit.install(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def built(cluster):
    """The objects of a folder, as `kubectl kustomize` writes them."""

    @cache
    def build(folder):
        return [raw for raw in yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))) if raw]

    return build


def one(objects, kind):
    (found,) = (raw for raw in objects if raw["kind"] == kind)
    return found


def pod_of(deployment, **changes):
    template = deployment["spec"]["template"]
    metadata = {"name": "admitted", "namespace": NAMESPACE, **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"], **changes}}


def dry_run(cluster, *objects):
    """Has the API server check objects strictly. Raises KubectlError, which says what it refuses."""
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(objects))


@pytest.mark.parametrize("folder", [kit.BASE, MANIFESTS / "gangs", *OVERLAYS.values()], ids=lambda path: path.name)
def test_the_api_server_accepts_every_object(cluster, built, folder):
    objects = built(folder)
    cluster.apply(*(raw for raw in objects if raw["kind"] == "Namespace"))
    dry_run(cluster, *(raw for raw in objects if raw["kind"] not in FOREIGN_KINDS))


def test_the_api_server_refuses_an_unknown_field(cluster, built):
    deployment = copy.deepcopy(one(built(kit.BASE), "Deployment"))
    deployment["spec"]["replica"] = 2
    with pytest.raises(KubectlError, match="unknown field"):
        dry_run(cluster, deployment)


@pytest.mark.parametrize("name", WITH_PODS)
def test_the_pod_meets_the_restricted_standard(cluster, built, name):
    """Admission in this namespace enforces the pod security standard `restricted`."""
    deployment = one(built(WITH_PODS[name]), "Deployment")
    dry_run(cluster, pod_of(deployment))
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    weaker = {**container, "securityContext": {**container["securityContext"], "allowPrivilegeEscalation": True}}
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        dry_run(cluster, pod_of(deployment, containers=[weaker]))


def test_openshift_chooses_the_user_of_the_pod(built):
    """The constraint restricted-v2 demands more than the standard `restricted`: no user, group or fsGroup that the
    manifest fixes.
    """
    deployment = one(built(OVERLAYS["openshift"]), "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    fixed = {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"}
    for context in (spec["securityContext"], *(container["securityContext"] for container in spec["containers"])):
        assert not fixed & context.keys()
    assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["openshift.io/required-scc"] == "restricted-v2"
    assert not [
        raw for raw in built(OVERLAYS["openshift"]) if "securitycontextconstraints" in yaml.safe_dump(raw).lower()
    ]


@pytest.mark.parametrize("name", WITH_PODS)
def test_every_selector_selects_the_pod(built, name):
    objects = built(WITH_PODS[name])
    deployment = one(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [deployment["spec"]["selector"], one(objects, "PodDisruptionBudget")["spec"]["selector"]]
    selectors.append(one(objects, "NetworkPolicy")["spec"]["podSelector"])
    selectors += [{"matchLabels": raw["spec"]["selector"]} for raw in objects if raw["kind"] == "Service"]
    affinity = deployment["spec"]["template"]["spec"].get("affinity", {}).get("podAntiAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    selectors += [term["podAffinityTerm"]["labelSelector"] for term in terms]
    for selector in selectors:
        assert selector["matchLabels"].items() <= labels


def test_the_probes_and_the_network_policy_agree_with_the_port(built):
    objects = built(kit.BASE)
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert kit.DEPLOYED_PORT in container["args"]
    (port,) = container["ports"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert {probe["scheme"] for probe in probes.values()} == {"HTTPS"}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    spec = one(objects, "NetworkPolicy")["spec"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": port["containerPort"]}]}]
    allowed = {(each["protocol"], each["port"]) for rule in spec["egress"] for each in rule["ports"]}
    assert allowed == {("TCP", 443), ("TCP", 6443), ("TCP", 53), ("UDP", 53)}


def test_several_replicas_elect_a_leader_and_a_single_one_does_not(built):
    several, single = (one(built(folder), "Deployment")["spec"] for folder in (kit.BASE, OVERLAYS["single"]))
    assert several["replicas"] == 2
    assert "--leader-elect" in several["template"]["spec"]["containers"][0]["args"]
    assert single["replicas"] == 1
    assert single["strategy"] == {"type": "Recreate"}
    assert "--leader-elect" not in single["template"]["spec"]["containers"][0]["args"]
    assert not [raw for raw in built(OVERLAYS["single"]) if "leases" in str(raw.get("rules"))]


def test_nobody_gets_a_right_to_secrets_or_to_everything(built):
    for folder in (kit.BASE, MANIFESTS / "gangs", *OVERLAYS.values()):
        for raw in built(folder):
            for rule in raw.get("rules", ()):
                parts = [*rule["verbs"], *rule.get("apiGroups", ()), *rule.get("resources", ())]
                assert not {"*", "secrets", "impersonate", "escalate", "bind"} & set(parts), raw["metadata"]["name"]
