"""Every command of the documents for operators works, on a cluster with manifests/base."""

from __future__ import annotations

import re
import sys

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.control_plane.static_pod import STATIC_POD
from support.examples.checkout import Checkout
from support.monitoring.prometheus import OVERLAY

DOCUMENTS = [kit.CHECKOUT / "docs" / name for name in ("runbook.md", "troubleshooting.md", "migrate.md", "logs.md")]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}]
"""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/podwright-system/leases/podwright"
ENDLESS = re.compile(r"^podwright run (?!--help)")
"""Commands that run until they are stopped. Only their options are checked."""


def commands_of(path):
    """The lines of the indented blocks, without prompts and comments, each once."""
    lines = re.findall(r"^(?:    ){1,2}(\S.*)$|^ {7}(\S.*)$", path.read_text(), re.MULTILINE)
    return list(dict.fromkeys("".join(found).strip() for found in lines))


@pytest.fixture(scope="module")
def secured(control_plane):
    """The port of an operator with the command line of manifests/base."""
    kit.install(control_plane)
    port = free_port()
    kubeconfig = control_plane.service_account_kubeconfig(*kit.ACCOUNT)
    environ = {"KUBECONFIG": str(kubeconfig), **kit.POD_ENVIRON}
    process = control_plane.start_process("documented", kit.deployed_command(port), environ)
    operator = kit.Operator(process, port, scheme="https")
    kit.wait_ready(operator)
    yield port
    process.stop(30)


@pytest.fixture
def shell(control_plane, secured, tmp_path):
    """Runs a command in a copy of the checkout, as the administrator."""
    programs = {"kubectl": control_plane.binaries.path("kubectl")}
    command = f"{sys.executable} -m podwright"
    scripts = {"podwright": command, "kubectl-podwright": command}
    checkout = Checkout(tmp_path, control_plane.kubeconfig, programs, scripts)
    (checkout.folder / "scheduler.yaml").write_text(CONFIGURATION)
    (checkout.folder / "pod.yaml").write_text(yaml.safe_dump(pod("web")))
    return checkout


@pytest.fixture
def installed(control_plane, empty_cluster):
    """The objects that the documents assume: the Deployment, a node, a pod, a queue, the Leases, and the right of
    Prometheus.
    """
    kit.install(control_plane)
    control_plane.apply(kit.CHECKOUT / "manifests" / "examples" / "queues" / "teams.yaml")
    control_plane.client.create(node("worker"))
    control_plane.client.create(pod("web"))
    (binding,) = (
        raw
        for raw in yaml.safe_load_all((OVERLAY / "service-monitor.yaml").read_text())
        if raw["kind"] == "ClusterRoleBinding"
    )
    control_plane.apply(binding)
    yield
    kit.install(control_plane)


def wait_for_leases(cluster):
    """Kube-scheduler's Lease is there, and the operator's, which it creates again when it is deleted."""
    metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    cluster.apply({**lease, "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15}})
    wait_until(lambda: cluster.client.raw("GET", LEASE)[0] == 200, 30, "the operator holds its Lease")


def test_every_command_works(control_plane, secured, installed, shell):
    failed = {}
    for command in dict.fromkeys(command for path in DOCUMENTS for command in commands_of(path)):
        if " lease " in command:
            wait_for_leases(control_plane)
        text = f"{command} --help" if ENDLESS.match(command) else command.replace(":10259", f":{secured}")
        done = shell.try_(text)
        if done.returncode:
            failed[command] = done.stdout + done.stderr
        if command.startswith("curl"):
            assert "readyz check passed" in done.stdout
    assert failed == {}


@pytest.mark.parametrize("dropped", ["", "  securityContext: {seccompProfile: {type: RuntimeDefault}}\n"])
def test_the_static_pod_is_exchanged_and_comes_back(installed, shell, dropped):
    path = shell.host / "manifests" / "kube-scheduler.yaml"
    given = STATIC_POD.replace(dropped, "")
    path.write_text(given)
    commands = [text for text in commands_of(kit.CHECKOUT / "docs" / "migrate.md") if "/etc/kubernetes/" in text]
    *forth, back = commands
    for command in forth:
        shell(command)
    before = yaml.safe_load(given)["spec"]["containers"][0]["command"]
    (container,) = yaml.safe_load(path.read_text())["spec"]["containers"]
    assert container["command"] == ["podwright", "kube-scheduler", *before[1:]]
    shell(back)
    assert path.read_text() == given
