"""`--config`: the operator with a KubeSchedulerConfiguration, on the real control plane."""

import subprocess
import sys

import pytest

from podwright.testing import node, pod
from support.configuration.second_schedulers import CUSTOM_SCHEDULER, SAMPLE_SCHEDULER
from support.control_plane import operator_process as kit

GROUP = "kubescheduler.config.k8s.io"
PLUGINS = kit.CHECKOUT / "examples" / "src" / "podwright_examples"

TWO_PROFILES = f"""
apiVersion: {GROUP}/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: spreads
- schedulerName: packs
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
  plugins:
    score:
      disabled: [{{name: "*"}}]
      enabled: [{{name: NodeResourcesFit}}]
"""


@pytest.fixture
def cluster(installed, empty_cluster):
    empty_cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b")])
    return empty_cluster


@pytest.fixture
def leases_granted(cluster):
    """The right to a Lease of any name, which may not be watched: as authors of sample plugins grant it."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "leases", "namespace": "kube-system"}}
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "list", "update"]}
    role = {**kind, "kind": "Role", "rules": [rule]}
    account = {"kind": "ServiceAccount", "namespace": kit.ACCOUNT[0], "name": kit.ACCOUNT[1]}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leases"}
    binding = {**kind, "kind": "RoleBinding", "roleRef": role_ref, "subjects": [account]}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
    for raw in (role, binding):
        cluster.client.create(raw)
    yield
    for plural in ("rolebindings", "roles"):
        cluster.client.request("DELETE", f"{path}/{plural}/leases")


def nodes_of(cluster, namespace, scheduler):
    pods = [raw["spec"] for raw in kit.pods(cluster, namespace)]
    return [spec["nodeName"] for spec in pods if spec["schedulerName"] == scheduler]


def holder(cluster):
    """The holder of the Lease that the file names."""
    lease = cluster.client.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/sample-scheduler")
    return lease["spec"]["holderIdentity"]


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_each_profile_places_the_pods_of_its_scheduler_name(cluster, namespace, tmp_path, intake):
    file = tmp_path / "scheduler.yaml"
    file.write_text(TWO_PROFILES)
    with kit.running(cluster, f"--config={file}", f"--pod-intake={intake}"):
        for scheduler in ("spreads", "packs"):
            for number in range(4):
                raw = pod(f"{scheduler}-{number}", namespace=namespace, scheduler=scheduler, cpu="500m")
                cluster.client.create(raw)
            kit.wait_bound(cluster, namespace, 4 if scheduler == "spreads" else 8)
    assert sorted(nodes_of(cluster, namespace, "spreads")) == ["node-a", "node-a", "node-b", "node-b"]
    assert len(set(nodes_of(cluster, namespace, "packs"))) == 1
    decided = {raw["spec"]["schedulerName"]: kit.decision(raw)["policy"] for raw in kit.pods(cluster, namespace)}
    assert decided == {"spreads": "profile/spreads", "packs": "profile/packs"}


def test_the_policies_that_a_file_is_converted_to_are_accepted_and_place_pods_alike(cluster, namespace, tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(TWO_PROFILES)
    command = [sys.executable, "-m", "podwright", "convert", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("# profiles: podwright run also serves podwright")
    cluster.apply(done.stdout)
    with kit.running(cluster):
        for number in range(4):
            cluster.client.create(pod(f"p{number}", namespace=namespace, scheduler="packs", cpu="500m"))
        kit.wait_bound(cluster, namespace, 4)
    assert len(set(nodes_of(cluster, namespace, "packs"))) == 1
    assert {kit.decision(raw)["policy"] for raw in kit.pods(cluster, namespace)} == {"packs"}


def test_the_configuration_of_a_second_scheduler_works_as_it_is(cluster, namespace, tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(CUSTOM_SCHEDULER)
    with kit.running(cluster, f"--config={file}"):
        cluster.client.create(pod("theirs", namespace=namespace, scheduler="somebody-else"))
        cluster.client.create(pod("ours", namespace=namespace, scheduler="custom-scheduler"))
        kit.wait_bound(cluster, namespace, 1)
    assert nodes_of(cluster, namespace, "custom-scheduler") in (["node-a"], ["node-b"])


@pytest.mark.usefixtures("leases_granted")
def test_the_configuration_of_the_sample_plugin_works_as_it_is(cluster, namespace, tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(SAMPLE_SCHEDULER)
    with kit.running(cluster, f"--config={file}", f"--plugin-dir={PLUGINS}") as operator:
        cluster.client.create(pod("ours", namespace=namespace, scheduler="sample-scheduler"))
        kit.wait_bound(cluster, namespace, 1)
        log = operator.log()
        assert kit.decision(kit.pods(cluster, namespace)[0])["instance"] == holder(cluster)
    assert holder(cluster) == "", "the Lease is released"
    assert f"PreFilter of pod {namespace}/ours: favorite_color #326CE5, favorite_number 7" in log
