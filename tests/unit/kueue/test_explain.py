"""`podwright explain workload/x`: the answer of the check, from a snapshot."""

from __future__ import annotations

import orjson
import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.kueue.decision import decide
from podwright.kueue.explain import explain_workload
from podwright.kueue.workload import Workload
from podwright.simulator.explain.results import PodState
from podwright.simulator.explain.targets import TargetError, parse_target
from podwright.simulator.loaded import load
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import Snapshot
from podwright.testing import node, pod
from support.kueue.stand_in import CHECK, condition, pod_set
from support.kueue.workloads import workload

FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "spot"},
    "spec": {"nodeLabels": {"pool": "spot"}},
}


def raw_of(*pod_sets, conditions=("QuotaReserved",), **options):
    made = workload(*pod_sets, **options).raw
    status = {**made["status"], "conditions": [condition(each, True) for each in conditions]}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **made, "status": status}


def reservation(name, node_name, cpu, *, uid="other"):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {
            "namespace": "team",
            "podSelector": {"matchLabels": {"podwright.dev/place": f"{uid}-0"}},
            "slots": [{"node": node_name, "requests": {"cpu": cpu}}],
            "duration": "10m",
        },
    }


NODES = (node("n0", cpu="4"), node("n1", cpu="2", labels={"pool": "spot"}))


def explained(*objects, taken_at=1_793_491_260.0, text="workload/train"):
    """`taken_at`: a minute after the Reservations were made."""
    snapshot = Snapshot(objects=[redacted(each["kind"], each) for each in objects], taken_at=taken_at)
    cluster = load(snapshot)
    assert not cluster.problems
    return explain_workload(cluster, snapshot, parse_target(text, "team")), cluster


def test_it_says_what_the_check_says_and_names_pod_set_nodes_and_what_helps():
    raw = raw_of(pod_set("driver"), pod_set("worker", 3, cpu="3"))
    found, cluster = explained(*NODES, raw)
    said = decide(cluster.cache, cluster.policies, Workload(raw), {}, lambda n: n - 1).message
    assert (found.state, found.cause.reason) == (PodState.PENDING, "DoesNotFitNow")
    assert found.cause.text == f"does not fit now: {said}"
    assert found.cause.text.startswith('does not fit now: pod set "worker": ')
    assert "Nearest: n" in said
    assert "What would help: " in said


def test_places_that_other_workloads_have_are_not_free_until_their_time_is_over():
    raw, other = raw_of(pod_set(cpu="4")), reservation("kueue-other-0-0", "n0", "4")
    found, _ = explained(*NODES, raw, other)
    assert "its room is kept for Reservation kueue-other-0-0, nominated there" in found.cause.text
    assert explained(*NODES, raw, other, taken_at=1_793_491_260.0 + 600)[0].state is PodState.FITS
    own, _ = explained(*NODES, raw, reservation("kueue-u-0-0", "n0", "4", uid="u"))
    assert own.state is PodState.FITS


@pytest.mark.parametrize(
    ("checks", "text"),
    [
        ([], "fits now: 1 pod on 1 node"),
        ([{"name": CHECK, "state": "Ready", "message": "secret"}], "fits now: 1 pod on 1 node, held for the pods"),
    ],
)
def test_what_fits_is_held_only_if_the_check_is_ready(checks, text):
    found, _ = explained(*NODES, raw_of(pod_set(), checks=checks))
    assert (found.state, found.cause.text) == (PodState.FITS, text)


def test_without_quota_it_says_that_flavors_are_not_known_and_how_often_kueue_has_tried():
    raw = raw_of(pod_set(cpu="9"), checks=[{"name": CHECK, "state": "Pending", "retryCount": 3}])
    del raw["status"]["admission"]
    found, _ = explained(*NODES, raw)
    assert "9 CPU requested" in found.cause.text
    assert found.notes == (
        "it has no quota now, so the node labels of the flavors that it will get are not known",
        f"its check {CHECK} is Pending, after 3 retries",
    )


def test_flavors_count_and_one_that_is_missing_is_named():
    raw = raw_of(pod_set(cpu="3"), assignments={"main": {"flavors": {"cpu": "spot"}}})
    assert "n1 (3 CPU requested" in explained(*NODES, raw, FLAVOR)[0].cause.text
    assert explained(*NODES, raw)[0].cause.text == 'does not fit now: its ResourceFlavor "spot" does not exist'


def test_the_pods_of_a_workload_that_was_started_are_explained():
    placed = pod("train-0", "team", labels={"podwright.dev/place": "u-0"}, nodeName="n0")
    waits = pod("train-1", "team", scheduler="podwright", cpu="9", labels={"podwright.dev/place": "u-0"})
    for index, each in enumerate((placed, waits)):
        each["metadata"]["uid"] = f"p{index}"
    found, _ = explained(*NODES, raw_of(pod_set(count=2), conditions=("QuotaReserved", "Admitted")), placed, waits)
    assert (found.kind, found.name, found.pods, found.placed, found.waiting) == ("Workload", "team/train", 2, 1, 1)
    assert "9 CPU" in found.causes[0].text


def test_a_finished_workload_is_finished_and_an_unknown_one_is_named():
    assert explained(*NODES, raw_of(pod_set(), conditions=("Finished",)))[0].state is PodState.FINISHED
    with pytest.raises(TargetError, match="Workload team/other is not in the cluster"):
        explained(*NODES, raw_of(pod_set()), text="workload/other")
    of_kubernetes = {**raw_of(pod_set()), "apiVersion": "scheduling.k8s.io/v1alpha1"}
    with pytest.raises(TargetError, match="not in the cluster"):
        explained(*NODES, of_kubernetes)


@pytest.mark.parametrize("text", ["workload/train", "workload.kueue.x-k8s.io/train", "wl/train"])
def test_the_command_explains_a_snapshot(tmp_path, text):
    file = tmp_path / "cluster.json"
    objects = [redacted(each["kind"], each) for each in (*NODES, raw_of(pod_set(cpu="9")))]
    file.write_bytes(Snapshot(objects=objects).dump())
    done = CliRunner().invoke(main, ["explain", text, "-n", "team", str(file)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith('workload team/train  Pending\n  why  does not fit now: pod set "main": 0 of 1 pod')
    answer = CliRunner().invoke(main, ["explain", text, "-n", "team", "-o", "json", str(file)])
    assert orjson.loads(answer.stdout)["state"] == "Pending"


def test_a_snapshot_has_no_messages_commands_or_variables_of_a_workload():
    sets = pod_set()
    sets["template"]["spec"]["containers"][0] |= {"env": [{"name": "A", "value": "secret"}], "command": ["secret"]}
    raw = raw_of(sets, checks=[{"name": CHECK, "state": "Retry", "message": "secret", "retryCount": 1}])
    raw["status"]["conditions"][0]["message"] = "secret"
    kept = redacted("Workload", raw)
    assert "secret" not in str(kept)
    assert kept["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert kept["status"]["admissionChecks"] == [{"name": CHECK, "state": "Retry", "retryCount": 1}]
