"""Deployments of a second kube-scheduler run with only the image and the first words of the command exchanged.

The Deployment, its ConfigMap and its roles are applied unchanged; the command runs as a process with the rights of its
service account, and is probed as the kubelet would probe it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.configuration.second_schedulers import COMPILED_SCHEDULER, CUSTOM_SCHEDULER
from support.control_plane import operator_process as kit

SCHEDULERS = {"custom-scheduler": CUSTOM_SCHEDULER, "compiled-scheduler": COMPILED_SCHEDULER}


def second_scheduler(name: str) -> list[dict]:
    """A ConfigMap, a service account with kube-scheduler's roles, and a Deployment that is probed at /healthz."""
    metadata = {"name": name, "namespace": "kube-system"}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{name}-{role.replace(':', '-')}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
        for role in ("system:kube-scheduler", "system:volume-scheduler")
    ]
    probe = {"httpGet": {"path": "/healthz", "port": 10259, "scheme": "HTTPS"}}
    container = {
        "name": "scheduler",
        "image": "kube-scheduler",
        "command": ["/usr/local/bin/kube-scheduler", "--config=/etc/config/config.yaml"],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
    }
    spec = {
        "serviceAccountName": name,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": SCHEDULERS[name]}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        *bindings,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
        },
    ]


def exchanged(deployment: dict) -> dict:
    """The Deployment with our image, and `podwright kube-scheduler` instead of the first word of the command."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = "podwright:latest"
    container["command"][:1] = ["podwright", "kube-scheduler"]
    return deployment


def mounted(objects: list[dict], spec: dict, folder: Path) -> dict[str, str]:
    """Writes the ConfigMaps that the container mounts to files. Returns the folder of each mount path."""
    config_maps = {raw["metadata"]["name"]: raw["data"] for raw in objects if raw["kind"] == "ConfigMap"}
    sources = {volume["name"]: config_maps[volume["configMap"]["name"]] for volume in spec["volumes"]}
    paths = {}
    for mount in spec["containers"][0]["volumeMounts"]:
        target = folder / mount["name"]
        target.mkdir()
        for name, text in sources[mount["name"]].items():
            (target / name).write_text(text)
        paths[mount["mountPath"]] = str(target)
    return paths


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_deployment_of_a_second_scheduler_becomes_ready_and_schedules(
    empty_cluster, namespace, tmp_path, scheduler
):
    cluster = empty_cluster
    objects = second_scheduler(scheduler)
    (deployment,) = [exchanged(raw) for raw in objects if raw["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    cluster.apply(*objects)
    cluster.client.create(node("only"))
    command = [sys.executable, "-m", *container["command"]]
    for path, folder in mounted(objects, spec, tmp_path).items():
        command = [word.replace(path, folder) for word in command]
    port = free_port()
    kubeconfig = cluster.service_account_kubeconfig("kube-system", spec["serviceAccountName"])
    # Outside of a pod: where its kubeconfig is, and a port that is free here. What the pod's own port would be is
    # checked below.
    command += [f"--secure-port={port}"]
    process = cluster.start_process(scheduler, command, {"KUBECONFIG": str(kubeconfig)})
    operator = kit.Operator(process, port, scheme="https")
    try:
        for name in ("readinessProbe", "livenessProbe"):
            probe = container[name]["httpGet"]
            assert (probe["scheme"], probe["port"]) == ("HTTPS", 10259)
            wait_until(lambda path=probe["path"]: operator.get(path)[0] == 200, 60, f"the {name} passes")
        cluster.client.create(pod("theirs", namespace, scheduler="somebody-else"))
        cluster.client.create(pod("ours", namespace, scheduler=scheduler))
        kit.wait_bound(cluster, namespace, 1, 30)
        assert [
            raw["spec"]["schedulerName"] for raw in kit.pods(cluster, namespace) if raw["spec"].get("nodeName")
        ] == [scheduler]
    finally:
        process.stop(30)
        for raw in objects:
            cluster.client.delete(raw)
    assert process.returncode == 0
    assert "Traceback" not in operator.log()
    assert " is off: RBAC" not in operator.log()
