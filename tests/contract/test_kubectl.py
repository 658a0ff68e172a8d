"""Everyday kubectl commands work, with the pinned kubectl and with the installed one."""

import os
import shutil
import subprocess
import sys
import textwrap
import uuid

import pytest
import yaml

from podwright.testing import wait_until

from .test_custom_resources import definition

pytestmark = pytest.mark.slow

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"schedulerName": "unused-scheduler", "containers": [{"name": "c", "image": "registry.example/c"}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]},
        },
    },
}


class Kubectl:
    def __init__(self, program, kubeconfig, namespace, home):
        self._command = [program, f"--kubeconfig={kubeconfig}", "-n", namespace]
        self._environment = {**os.environ, "HOME": str(home), "KUBECACHEDIR": str(home)}

    def fails(self, *arguments, given=None, **environment):
        """Runs a command that must fail, and returns its stderr."""
        done = self._run(arguments, given, environment)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def eventually(self, *arguments, given=None):
        """Runs a command again until it succeeds, because a real server needs a moment to serve a new kind and to
        publish its schema.
        """
        wait_until(
            lambda: self._run(arguments, given, {}).returncode == 0, 30, f"kubectl {' '.join(arguments)} succeeds"
        )
        return self(*arguments, given=given)

    def __call__(self, *arguments, given=None, **environment):
        done = self._run(arguments, given, environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, arguments, given, environment):
        return subprocess.run(
            [*self._command, *arguments],
            input=given and yaml.safe_dump(given),
            env=self._environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )


INSTALLED = shutil.which("kubectl")
PROGRAMS = [pytest.param(None, id="pinned kubectl", marks=pytest.mark.control_plane)]
if INSTALLED:
    PROGRAMS.append(pytest.param(INSTALLED, id="installed kubectl"))


@pytest.fixture(params=PROGRAMS)
def program(request):
    """The pinned one is found or built; in CI, its absence is a failure."""
    return request.param or request.getfixturevalue("binaries").path("kubectl")


@pytest.fixture
def kubectl(program, server, tmp_path):
    prefix = Kubectl(program, server, "default", tmp_path)
    namespace = f"kubectl-{uuid.uuid4().hex[:8]}"
    prefix("create", "-f", "-", given={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Kubectl(program, server, namespace, tmp_path)
    prefix("-n", namespace, "delete", "pods,deployments", "--all", "--wait=false")
    prefix("delete", "namespace", namespace, "--wait=false")


def test_a_pod_is_created_shown_described_and_deleted(kubectl):
    assert kubectl("create", "-f", "-", given=POD) == "pod/a created\n"
    header, row = kubectl("get", "pods", "-o", "wide").splitlines()
    assert header.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["a", "0/1", "Pending", "0"]
    described = kubectl("describe", "pod", "a")
    assert "Image:        registry.example/c" in described
    assert "Events:" in described
    assert kubectl("get", "pods", "-o", "name", "--field-selector=spec.schedulerName=unused-scheduler") == "pod/a\n"
    assert kubectl("delete", "pod", "a").startswith('pod "a" deleted')
    assert 'pods "a" not found' in kubectl.fails("get", "pod", "a")


def test_apply_creates_changes_or_leaves_unchanged(kubectl):
    assert kubectl("apply", "-f", "-", given=DEPLOYMENT) == "deployment.apps/d created\n"
    assert kubectl("apply", "-f", "-", given=DEPLOYMENT) == "deployment.apps/d unchanged\n"
    more = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replicas": 5}}
    assert kubectl("apply", "-f", "-", given=more) == "deployment.apps/d configured\n"
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas} {.metadata.generation}") == "5 2"
    assert kubectl("apply", "--validate=false", "-f", "-", given=DEPLOYMENT) == "deployment.apps/d configured\n"


def test_labels_and_annotations_are_added_and_removed(kubectl):
    kubectl("create", "-f", "-", given=POD)
    kubectl("label", "pod", "a", "x=y")
    kubectl("annotate", "pod", "a", "note=two words")
    where = "jsonpath={.metadata.labels} {.metadata.annotations.note}"
    assert kubectl("get", "pod", "a", "-o", where) == '{"x":"y"} two words'
    kubectl("label", "pod", "a", "x-")
    assert kubectl("get", "pods", "-l", "x", "-o", "name") == ""


def test_edit_changes_an_object(kubectl, tmp_path):
    kubectl("create", "-f", "-", given=DEPLOYMENT)
    editor = tmp_path / "editor.py"
    editor.write_text(
        textwrap.dedent("""
            import pathlib, sys
            path = pathlib.Path(sys.argv[1])
            path.write_text(path.read_text().replace("replicas: 2", "replicas: 7"))
        """)
    )
    output = kubectl("edit", "deployment", "d", KUBE_EDITOR=f"{sys.executable} {editor}")
    assert output.splitlines()[-1] == "deployment.apps/d edited"
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}") == "7"


def test_scale_and_patch_change_a_deployment(kubectl):
    kubectl("create", "-f", "-", given=DEPLOYMENT)
    kubectl("scale", "deployment", "d", "--replicas=4")
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}") == "4"
    kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec": {"replicas": 6}}')
    kubectl("patch", "deployment", "d", "-p", '{"metadata": {"labels": {"x": "y"}}}')
    where = "jsonpath={.spec.replicas} {.metadata.labels.x}"
    assert kubectl("get", "deployment", "d", "-o", where) == "6 y"


def test_a_custom_kind_has_a_short_name_and_printer_columns(kubectl):
    group = f"k{uuid.uuid4().hex[:8]}.example.com"
    kubectl("apply", "-f", "-", given=definition(group))
    # Fails at once if the server has not written any conditions yet.
    kubectl.eventually("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=60s")
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"mode": "fast"}}
    try:
        kubectl.eventually("apply", "-f", "-", given=widget)
        header, row = kubectl("get", f"wd.{group}").splitlines()
        assert (header.split(), row.split()[:2]) == (["NAME", "MODE", "AGE"], ["w", "fast"])
        refused = kubectl.fails("apply", "-f", "-", given=widget | {"spec": {"mode": "odd"}})
        assert 'spec.mode: Unsupported value: "odd": supported values: "fast", "slow"' in refused
        unknown = kubectl.fails("apply", "-f", "-", given=widget | {"spec": {"mode": "fast", "junk": 1}})
        assert 'unknown field "spec.junk"' in unknown
        assert "mode" in kubectl.eventually("explain", f"widgets.{group}.spec")
    finally:
        kubectl("delete", "crd", f"widgets.{group}")


def test_nodes_are_cordoned_tainted_and_described(kubectl):
    name = f"node-{uuid.uuid4().hex[:8]}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}
    kubectl("create", "-f", "-", given=node)
    try:
        kubectl("cordon", name)
        kubectl("taint", "node", name, "x=y:NoSchedule")
        described = kubectl("describe", "node", name)
        assert "x=y:NoSchedule" in described
        assert "Unschedulable:      true" in described
        kubectl("taint", "node", name, "x-")
        kubectl("uncordon", name)
        where = "jsonpath={.spec.taints}{.spec.unschedulable}"
        assert kubectl("get", "node", name, "-o", where) == ""
    finally:
        kubectl("delete", "node", name)


def test_describe_pod_shows_its_events(kubectl):
    kubectl("create", "-f", "-", given=POD)
    uid = kubectl("get", "pod", "a", "-o", "jsonpath={.metadata.uid}")
    namespace = kubectl("get", "pod", "a", "-o", "jsonpath={.metadata.namespace}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": namespace, "uid": uid},
        "reason": "FailedScheduling",
        "message": "0/0 nodes are available",
        "type": "Warning",
        "source": {"component": "podwright"},
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", given=event)
    assert "FailedScheduling" in kubectl("describe", "pod", "a").split("Events:")[1]
    assert "0/0 nodes are available" in kubectl("get", "events")
