"""The test control plane starts, behaves like a real one, and leaves nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from podwright.testing import (
    AnswerError,
    Binaries,
    Client,
    ControlPlane,
    KubectlError,
    ProcessError,
    node,
    pod,
    wait_until,
)
from support.control_plane import operator_process
from support.gangs.pod_groups import SERVING_GROUPS, WORKLOAD


def running(pid: int) -> bool:
    """True if a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def bound_to(cluster: ControlPlane, body: dict) -> str | None:
    return cluster.client.read(body)["spec"].get("nodeName")


def phase(cluster: ControlPlane, body: dict) -> str:
    return cluster.client.read(body)["status"]["phase"]


def test_the_api_server_reports_the_pinned_version(control_plane):
    pinned = control_plane.binaries.versions.kubernetes
    assert control_plane.client.get("/version")["gitVersion"] == f"v{pinned}"
    assert f"Client Version: v{pinned}" in control_plane.kubectl("version")


def test_kubectl_lists_objects_that_the_client_created(empty_cluster):
    empty_cluster.client.create(node("blue", cpu="2"))
    assert empty_cluster.kubectl("get", "nodes", "-o", "name") == "node/blue\n"


def test_a_new_node_has_no_taints(empty_cluster):
    created = empty_cluster.client.create(node("untainted"))
    assert created["spec"].get("taints") is None


def test_a_failing_kubectl_raises_with_its_output(control_plane):
    with pytest.raises(KubectlError, match='"nothing-here" not found'):
        control_plane.kubectl("get", "node", "nothing-here")


def test_a_rejected_request_raises_with_status_and_reason(control_plane):
    with pytest.raises(AnswerError) as rejected:
        control_plane.client.read(node("nothing-here"))
    assert (rejected.value.status, rejected.value.reason) == (404, "NotFound")


def test_bulk_creates_and_deletes_all_objects(empty_cluster, namespace):
    pods = [pod(f"pod-{number}", namespace) for number in range(100)]
    answers = empty_cluster.bulk.create(pods)
    assert [answer["metadata"]["name"] for answer in answers] == [body["metadata"]["name"] for body in pods]
    assert len(empty_cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")) == 100
    empty_cluster.bulk.delete(pods)
    assert empty_cluster.client.items(f"/api/v1/namespaces/{namespace}/pods") == []


async def test_bulk_works_inside_a_running_event_loop(control_plane, namespace):
    assert len(control_plane.bulk.create([pod("one", namespace)])) == 1


def test_a_rejected_bulk_request_raises(control_plane, namespace):
    with pytest.raises(ExceptionGroup) as rejected:
        control_plane.bulk.create([pod("Not A Name", namespace)])
    assert rejected.group_contains(AnswerError, match="Invalid")


def test_a_test_may_leave_objects_in_its_namespace(control_plane, namespace):
    assert namespace in control_plane.kubectl("get", "namespaces")
    control_plane.client.create(pod("left-behind", namespace))


def test_objects_of_earlier_tests_are_removed(empty_cluster):
    assert empty_cluster.client.items("/api/v1/pods") == []
    assert empty_cluster.client.items("/api/v1/nodes") == []
    namespaces = empty_cluster.client.items("/api/v1/namespaces")
    # Without a controller, a deleted namespace stays Terminating. Those of manifests stay on purpose.
    names = {item["metadata"]["name"] for item in namespaces if item["status"]["phase"] == "Active"}
    assert [name for name in names if name.startswith("test-")] == []


class TestServiceAccounts:
    def test_an_account_without_a_role_has_no_rights(self, control_plane, namespace):
        login = control_plane.service_account_kubeconfig(namespace, "nobody")
        with pytest.raises(KubectlError, match=f"system:serviceaccount:{namespace}:nobody.*cannot list"):
            control_plane.kubectl("get", "pods", kubeconfig=login)

    def test_an_account_has_the_rights_of_its_role(self, control_plane, namespace):
        login = control_plane.service_account_kubeconfig(namespace, "reader")
        control_plane.kubectl("create", "role", "reader", "--verb=list", "--resource=pods", "-n", namespace)
        control_plane.kubectl(
            "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader", "-n", namespace
        )
        wait_until(lambda: operator_process.may(control_plane, login, "list", "pods"), 30, "the role takes effect")
        assert control_plane.kubectl("get", "pods", "-o", "name", kubeconfig=login) == ""


class TestComponents:
    def test_the_scheduler_places_a_pod(self, empty_cluster, namespace):
        scheduler = empty_cluster.start_scheduler()
        try:
            empty_cluster.client.create(node("only"))
            body = pod("placed", namespace)
            empty_cluster.client.create(body)
            wait_until(lambda: bound_to(empty_cluster, body) == "only", 60, "the pod is bound")
        finally:
            scheduler.kill()

    def test_the_scheduler_follows_its_configuration(self, empty_cluster, namespace):
        scheduler = empty_cluster.start_scheduler({"profiles": [{"schedulerName": "mine"}]}, name="scheduler-mine")
        try:
            empty_cluster.client.create(node("only"))
            mine, other = pod("mine", namespace, scheduler="mine"), pod("other", namespace)
            empty_cluster.bulk.create([other, mine])
            wait_until(lambda: bound_to(empty_cluster, mine) == "only", 60, "the profile's pod is bound")
            assert bound_to(empty_cluster, other) is None
        finally:
            scheduler.kill()

    def test_a_deployment_runs_with_controllers_scheduler_and_kubelets(self, empty_cluster, namespace):
        started = [
            empty_cluster.start_controller_manager(),
            empty_cluster.start_scheduler(),
            empty_cluster.start_kwok(),
        ]
        try:
            empty_cluster.client.create(node("only"))
            empty_cluster.kubectl("create", "deployment", "web", "--image=web", "--replicas=3", "-n", namespace)
            output = empty_cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=180s")
            assert "successfully rolled out" in output
            empty_cluster.kubectl("delete", "deployment", "web", "-n", namespace, "--cascade=foreground")
        finally:
            for server in reversed(started):
                server.kill()


def test_feature_gates_api_versions_and_admission_plugins_can_be_enabled(binaries):
    with ControlPlane(binaries=binaries, disabled_admission=(), **SERVING_GROUPS) as cluster:
        if WORKLOAD:
            served = cluster.client.get(f"/apis/{WORKLOAD}")["resources"]
            assert "podgroups" in {resource["name"] for resource in served}
        cluster.start_scheduler()
        taints = cluster.client.create(node("tainted"))["spec"]["taints"]
        assert [taint["key"] for taint in taints] == ["node.kubernetes.io/not-ready"]
        with pytest.raises(AnswerError, match=r"serviceaccount .default. not found"):
            cluster.client.create(pod("accountless"))


def delete_prepared_and_fail(cluster: ControlPlane) -> None:
    with cluster:
        assert cluster.kubectl("get", "node", "prepared", "-o", "name") == "node/prepared\n"
        cluster.client.delete(node("prepared"))
        raise ValueError("a failing test")


@pytest.fixture(scope="class")
def own(binaries):
    """A control plane that others do not use meanwhile."""
    with ControlPlane(binaries=binaries) as cluster:
        yield cluster
    assert not cluster.folder.exists()


class TestFaults:
    def test_a_paused_api_server_continues_when_it_is_resumed(self, own):
        own.api_server.pause()
        paused = Client("127.0.0.1", int(own.url.rsplit(":", 1)[1]), own.certificate_authority, "", 0.5)
        assert not paused.ready()
        own.api_server.resume()
        wait_until(own.client.ready, 60, "the API server is ready")

    def test_restarted_etcd_and_api_server_keep_their_data(self, own):
        own.client.create(node("kept"))
        own.api_server.kill()
        own.etcd.kill()
        own.etcd.start()
        own.api_server.start()
        assert [item["metadata"]["name"] for item in own.client.items("/api/v1/nodes")] == ["kept"]

    def test_saved_data_starts_other_clusters_and_stays_unchanged_and_a_block_that_fails_keeps_logs(
        self, own, binaries, tmp_path
    ):
        own.client.create(node("prepared"))
        own.save_data(tmp_path / "data")
        for _ in range(2):
            copy = ControlPlane(binaries=binaries, etcd_data=tmp_path / "data")
            with pytest.raises(ValueError, match="a failing test"):
                delete_prepared_and_fail(copy)
            assert (copy.logs / "etcd.log").exists()
            assert not copy.api_server.alive
            shutil.rmtree(copy.folder)

    def test_a_server_that_fails_to_start_raises_with_its_log(self, binaries, capfd):
        cluster = ControlPlane(binaries=binaries, api_server_flags=["--no-such-flag"])
        with pytest.raises(ProcessError, match="unknown flag: --no-such-flag"):
            cluster.start()
        assert not cluster.etcd.alive
        logs = Path(capfd.readouterr().err.strip().rsplit(" ", 1)[1])
        assert "no-such-flag" in (logs / "kube-apiserver.log").read_text()
        shutil.rmtree(cluster.folder)

    @pytest.mark.parametrize(
        "ending",
        [
            pytest.param(signal.SIGKILL, id="the owner is killed"),
            pytest.param(signal.SIGTERM, id="the owner is terminated"),
        ],
    )
    def test_no_process_outlives_its_owner(self, binaries, ending):
        program = textwrap.dedent("""
            import time
            from concurrent.futures import ThreadPoolExecutor
            from podwright.testing import ControlPlane
            cluster = ControlPlane()
            with ThreadPoolExecutor() as short_lived:
                short_lived.submit(cluster.start).result()
            scheduler = cluster.start_scheduler()
            other = cluster.start_process("sleep", ["sleep", "1000"])
            print(cluster.etcd.pid, cluster.api_server.pid, scheduler.pid, other.pid, cluster.folder, flush=True)
            time.sleep(1000)
        """)
        owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        *pids, folder = owner.stdout.readline().split()
        pids = [int(pid) for pid in pids]
        assert all(running(pid) for pid in pids)
        os.kill(owner.pid, ending)
        owner.wait()
        owner.stdout.close()
        wait_until(lambda: not any(running(pid) for pid in pids), 30, "all children have ended")

        ControlPlane(binaries=binaries).stop()
        assert not Path(folder).exists(), "the next control plane removes the folder"


def test_the_command_line_runs_a_cluster_until_it_is_interrupted(binaries: Binaries):
    command = [sys.executable, "-m", "podwright.testing", "up", "--nodes", "2"]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    kubeconfig = Path(owner.stdout.readline().strip())

    def kubectl(*arguments, **options):
        program = [binaries.path("kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=True, timeout=180, **options).stdout

    assert kubectl("get", "nodes", "-o", "name").split() == ["node/node-0", "node/node-1"]
    if WORKLOAD == "scheduling.k8s.io/v1beta1":
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        group = {"apiVersion": WORKLOAD, "kind": "PodGroup", "metadata": {"name": "pair"}, "spec": spec}
        kubectl("create", "-f", "-", input=json.dumps(group))
        # Returns when the PodGroup is gone: a controller takes its finalizer away.
        kubectl("delete", "podgroups.scheduling.k8s.io", "pair", "--timeout=150s")
    owner.send_signal(signal.SIGINT)
    _, errors = owner.communicate()
    assert f"kubectl: {binaries.path('kubectl')}\n" in errors
    assert owner.returncode == 0
    assert not kubeconfig.exists()
