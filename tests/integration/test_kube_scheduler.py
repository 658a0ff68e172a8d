"""`podwright kube-scheduler` in the static pod that kubeadm writes, with kube-scheduler's user and rights."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import contextmanager

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.control_plane.static_pod import STATIC_POD
from support.hosts.host import scheduler_port

OVERLAY = kit.CHECKOUT / "manifests" / "overlays" / "replace-default"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/podwright-replace-default"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def patched():
    """The container of the static pod with the patches that are shipped for kubeadm."""
    raw = yaml.safe_load(STATIC_POD)
    for operation in yaml.safe_load((OVERLAY / "kubeadm-patches" / "kube-scheduler0+json.yaml").read_text()):
        *parents, last = operation["path"].strip("/").split("/")
        target = raw
        for key in parents:
            target = target[int(key) if isinstance(target, list) else key]
        if operation["op"] == "add" and isinstance(target, list):
            target.insert(int(last), operation["value"])
        else:
            target[int(last) if isinstance(target, list) else last] = operation["value"]
    (container,) = raw["spec"]["containers"]
    return container


@pytest.fixture
def cluster(empty_cluster):
    empty_cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b")])
    empty_cluster.client.raw("DELETE", BINDING)
    empty_cluster.client.raw("DELETE", LEASE)
    yield empty_cluster
    empty_cluster.client.raw("DELETE", BINDING)


@pytest.fixture
def kubeconfig(cluster, authorities, tmp_path):
    """scheduler.conf as kubeadm writes it: with a client certificate of kube-scheduler's user."""
    certificate, key = authorities.clients.client("system:kube-scheduler").write(tmp_path, "scheduler")
    entry = {"server": cluster.url, "certificate-authority": str(cluster.certificate_authority)}
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    file = tmp_path / "scheduler.conf"
    context = {"cluster": "kubernetes", "user": "system:kube-scheduler"}
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "kubernetes", "cluster": entry}],
                "users": [{"name": "system:kube-scheduler", "user": user}],
                "contexts": [{"name": "system:kube-scheduler@kubernetes", "context": context}],
                "current-context": "system:kube-scheduler@kubernetes",
            }
        )
    )
    return file


@contextmanager
def static_pod(cluster, kubeconfig):
    """The static pod as a process, which has passed its startup probe."""
    container = patched()
    assert container["command"][:2] == ["podwright", "kube-scheduler"]
    arguments = [word.replace("/etc/kubernetes/scheduler.conf", str(kubeconfig)) for word in container["command"][1:]]
    (port,) = container["ports"]
    with scheduler_port():
        log_start = sum(path.stat().st_size for path in cluster.logs.glob("static-pod.log"))
        process = cluster.start_process("static-pod", [sys.executable, "-m", "podwright", *arguments])
        operator = kit.Operator(process, port["containerPort"], log_start, scheme="https")
        try:
            process.wait_ready(lambda: passes(container["startupProbe"], operator), 60)
            yield operator
        finally:
            process.stop(30)
    assert process.returncode == 0, operator.log()
    assert "Traceback" not in operator.log()


def passes(probe, operator):
    """True if a probe of the container passes."""
    get = probe["httpGet"]
    assert (get["host"], get["port"], get["scheme"]) == ("127.0.0.1", "probe-port", "HTTPS")
    return operator.get(get["path"])[0] == 200


def default_pod(name, namespace):
    raw = pod(name, namespace=namespace, cpu="100m")
    raw["spec"].pop("schedulerName", None)
    return raw


def warnings(operator):
    """The messages of the log's warnings and errors."""
    found = re.findall(r" (?:WARNING|ERROR) +\S+: (.*)|^[WE]\d{4} .*?\] \"(.*?)\"", operator.log(), re.MULTILINE)
    return ["".join(groups) for groups in found]


def test_the_static_pod_of_kubeadm_schedules_with_the_rights_of_kube_scheduler_alone(cluster, namespace, kubeconfig):
    container = patched()
    cluster.client.create(default_pod("first", namespace))
    started = time.monotonic()
    with static_pod(cluster, kubeconfig) as operator:
        wait_until(lambda: kit.bound(cluster, namespace) == 1, 60, "the first pod is bound")
        print(f"first Binding {time.monotonic() - started:.2f} s after the start")
        wait_until(lambda: passes(container["readinessProbe"], operator), 60, "the readiness probe passes")
        assert passes(container["livenessProbe"], operator)
        cluster.client.create(default_pod("second", namespace))
        kit.wait_bound(cluster, namespace, 2)
        (first, *_) = kit.pods(cluster, namespace)
        assert first["spec"]["schedulerName"] == "default-scheduler"
        assert cluster.client.get(LEASE)["spec"]["holderIdentity"] == kit.decision(first)["instance"]
        for path in ("/metrics", "/configz"):
            status, body = operator.get(path)
            assert (status, json.loads(body)["message"]) == (
                403,
                f'forbidden: User "system:anonymous" cannot get path "{path}"',
            )
        off = re.compile(r"(Local)?SchedulerPolicies are off \(")
        assert [warning for warning in warnings(operator) if not off.match(warning)] == []
    assert cluster.client.get(LEASE)["spec"]["holderIdentity"] == "", "the Lease is released"


def test_the_static_pod_serves_policies_with_the_rights_of_the_overlay(cluster, namespace, kubeconfig):
    cluster.apply(OVERLAY)
    wait_until(lambda: cluster.client.raw("GET", kit.POLICIES)[0] == 200, 30, "the API server serves policies")
    spec = {"schedulerName": "default-scheduler", "strategy": {"type": "MostAllocated"}}
    policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "packs"}}
    cluster.client.create({**policy, "spec": spec})
    with static_pod(cluster, kubeconfig) as operator:
        for number in range(3):
            cluster.client.create(default_pod(f"p{number}", namespace))
        kit.wait_bound(cluster, namespace, 3)
        found = kit.pods(cluster, namespace)
        assert {kit.decision(each)["policy"] for each in found} == {"packs"}
        assert len({each["spec"]["nodeName"] for each in found}) == 1
        accepted = lambda: kit.condition(cluster.client.get(f"{kit.POLICIES}/packs"), "Accepted")
        wait_until(lambda: accepted().get("status") == "True", 30, "the policy is accepted in its status")
        assert warnings(operator) == []
