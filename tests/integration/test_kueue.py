"""`podwright admission-check` on the real API server, with Kueue's CRDs and a stand-in for its controller."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.kueue import stand_in
from support.kueue.stand_in import CHECK, Kueue, pod_set, reservations


@pytest.fixture(scope="module")
def checking(kueue_installed):
    """The process goes on for all tests that do not kill it."""
    found = stand_in.start(kueue_installed, "--first-retry=1s", "--longest-retry=3s")
    yield found
    found.process.stop(30)


def explained(kueue, target):
    """The cause that `podwright explain` names."""
    flags = ["-n", kueue.namespace, "-o", "json", "--kubeconfig", str(kueue.cluster.kubeconfig)]
    command = [sys.executable, "-m", "podwright", "explain", target, *flags]
    found = subprocess.run(command, capture_output=True, check=True, timeout=60)
    return json.loads(found.stdout)["causes"][0]


def test_the_admission_check_is_active(kueue, checking):
    active = lambda: kit.condition(kueue.client.get(f"{stand_in.API}/admissionchecks/{CHECK}"), "Active")
    wait_until(lambda: active().get("status") == "True", 30, "the check is active")


def test_a_workload_that_fits_gets_a_place_and_its_pods_take_it(kueue, checking):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4"), node("n1", cpu="4")])
    kueue.create("train", pod_set("driver"), pod_set("worker", 3, cpu="2"))
    kueue.reserve_quota("train")
    answer = kueue.wait_answered("train", "Ready")
    assert explained(kueue, "wl/train")["text"] == answer["message"]
    assert answer["message"] == "fits now: 4 pods on 2 nodes, held for the pods"
    assert [update["name"] for update in answer["podSetUpdates"]] == ["driver", "worker"]
    held = {each["metadata"]["name"]: each["spec"] for each in reservations(cluster)}
    assert sum(slot["count"] for spec in held.values() for slot in spec["slots"]) == 4
    with kit.running(cluster, "--pod-intake=watch"):
        cluster.bulk.create([pod(f"other-{i}", kueue.namespace, scheduler="podwright", cpu="1") for i in range(4)])
        kit.wait_bound(cluster, kueue.namespace, 1)
        kueue.admit("train")
        wait_until(lambda: len(kueue.nodes_of("train")) == 4, 60, "all pods of the Workload are bound")
        assert len(kueue.nodes_of("other")) == 1
    promised = sorted(slot["node"] for spec in held.values() for slot in spec["slots"] for _ in range(slot["count"]))
    assert sorted(kueue.nodes_of("train").values()) == promised
    assert kit.over_committed(cluster) == {}
    told = lambda: [event["regarding"]["name"] for event in kit.events(cluster, kueue.namespace, "FitsNow")]
    wait_until(lambda: told() == ["train"], 30, "an event says so")
    assert checking.metric("podwright_admission_check_answers_total", verdict="Ready") >= 1
    assert checking.metric("podwright_admission_check_places") == 1


def test_what_does_not_fit_is_retried_later_each_time_and_fits_when_there_is_room(kueue, checking):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    kueue.create("train", pod_set("worker", 3, cpu="2"))
    pauses = []
    for _ in range(4):
        (kueue.retry if pauses else kueue.reserve_quota)("train")
        answer = kueue.wait_answered("train", "Retry")
        pauses.append(answer["requeueAfterSeconds"])
    assert pauses == [1, 2, 3, 3]
    assert answer["message"].startswith('does not fit now: pod set "worker": 2 of 3 pods fit; ')
    assert "Nearest: n0 (2 CPU requested, 0 of 4 free: 2 too few)" in answer["message"]
    assert "podSetUpdates" not in answer
    assert reservations(cluster) == []
    assert explained(kueue, "workload.kueue.x-k8s.io/train")["text"] == answer["message"]
    notes = lambda: [event["note"] for event in kit.events(cluster, kueue.namespace, "DoesNotFitNow")]
    wait_until(lambda: notes() == [answer["message"]], 30, "an event says why")
    cluster.bulk.create([node("n1", cpu="2")])
    kueue.retry("train")
    kueue.wait_answered("train", "Ready")
    assert {slot["node"] for each in reservations(cluster) for slot in each["spec"]["slots"]} == {"n0", "n1"}


@pytest.mark.parametrize("how", ["deleted", "evicted", "finished", "without the check"])
def test_a_place_is_given_back_at_once_and_the_next_workload_gets_it(kueue, checking, how):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    kueue.create("first", pod_set(cpu="3"))
    kueue.reserve_quota("first")
    kueue.wait_answered("first", "Ready")
    kueue.create("second", pod_set(cpu="3"))
    kueue.reserve_quota("second")
    answer = kueue.wait_answered("second", "Retry")
    assert "first" not in answer["message"]
    match how:
        case "deleted":
            kueue.delete("first")
        case "evicted":
            kueue.evict("first", "Preempted")
        case "finished":
            kueue.write("first", lambda status: status["conditions"].append(stand_in.condition("Finished", True)))
        case "without the check":
            kueue.write("first", lambda status: status.update(admissionChecks=[]))
    wait_until(lambda: reservations(cluster) == [], 30, "the place is given back")
    kueue.retry("second")
    kueue.wait_answered("second", "Ready")


def test_a_check_without_quota_and_checks_of_others_are_left_alone(kueue, checking):
    kueue.cluster.bulk.create([node("n0", cpu="4")])
    kueue.create("waits", pod_set())
    pending = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    kueue.write("waits", lambda status: status.update(admissionChecks=[pending]))
    other = Kueue(kueue.cluster, kueue.namespace, ("theirs", CHECK))
    other.create("both", pod_set())
    other.reserve_quota("both")
    theirs = other.check("both", "theirs")
    other.wait_answered("both", "Ready")
    assert other.check("both", "theirs") == theirs
    assert kueue.check("waits") == pending


def test_two_checks_of_ours_get_the_same_answer_and_one_place(kueue, checking):
    cluster = kueue.cluster
    second = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "second"},
        "spec": {"controllerName": "podwright.dev/fits-now"},
    }
    cluster.apply(second)
    cluster.bulk.create([node("n0", cpu="4")])
    both = Kueue(cluster, kueue.namespace, (CHECK, "second"))
    both.create("train", pod_set(cpu="3"))
    both.reserve_quota("train")
    answers = [both.wait_answered("train", "Ready", check) for check in both.checks]
    assert answers[0].pop("podSetUpdates")[0]["labels"].keys() == {"podwright.dev/place"}
    assert {**answers[0], "name": ""} == {**answers[1], "name": ""}
    assert len(reservations(cluster)) == 1
    cluster.client.request("DELETE", f"{stand_in.API}/admissionchecks/second")


@pytest.mark.parametrize(
    ("sets", "annotations", "text"),
    [
        pytest.param([pod_set(count=100_000)], {}, "it has 100,000 pods", id="100,000 pods"),
        pytest.param([{"name": "a", "count": 1, "template": {}}], {}, "at least one container", id="no spec at all"),
        pytest.param(
            [{"name": "a", "count": 1, "template": {"metadata": {"labels": {"x": 1}}, "spec": {"containers": [7]}}}],
            {},
            'pod set "a"',
            id="a template of wrong types",
        ),
        pytest.param([pod_set(cpu="lots")], {}, "cpu", id="a request that is no quantity"),
        pytest.param(
            [
                {
                    **pod_set(),
                    "template": {**stand_in.template(), "metadata": {"annotations": {"podwright.dev/policy": "ghost"}}},
                }
            ],
            {},
            "ghost",
            id="a policy that does not exist",
        ),
        pytest.param([pod_set(nodeSelector={"zone": "none"})], {}, "zone", id="a label that no node has"),
    ],
)
def test_bad_input_gets_a_message_and_harms_nobody_else(kueue, checking, sets, annotations, text):
    kueue.cluster.bulk.create([node("n0", cpu="4")])
    kueue.create("bad", *sets, annotations=annotations)
    kueue.create("good", pod_set())
    for name in ("bad", "good"):
        kueue.reserve_quota(name)
    answer = kueue.wait_answered("bad", "Retry")
    assert text in answer["message"]
    kueue.wait_answered("good", "Ready")
    assert not [line for line in checking.complaints() if "failed" in line]


def test_no_pods_are_ready_without_a_place(kueue, checking):
    kueue.create("empty", pod_set(count=0))
    kueue.reserve_quota("empty")
    assert kueue.wait_answered("empty", "Ready")["message"] == "fits now: there are no pods to place"
    assert reservations(kueue.cluster) == []


def test_flavors_say_where_the_pods_may_go(kueue, checking):
    cluster = kueue.cluster
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "spot"},
        "spec": {"nodeLabels": {"pool": "spot"}},
    }
    cluster.apply(flavor)
    cluster.bulk.create([node("n0", cpu="8"), node("n1", cpu="2", labels={"pool": "spot"})])
    kueue.create("fits", pod_set(count=2))
    kueue.reserve_quota("fits", {"cpu": "spot"})
    kueue.wait_answered("fits", "Ready")
    (held,) = reservations(cluster)
    assert held["spec"]["slots"] == [{"node": "n1", "requests": {"cpu": "1"}, "count": 2}]
    kueue.create("late", pod_set())
    kueue.reserve_quota("late", {"cpu": "ghost"})
    assert 'its ResourceFlavor "ghost" does not exist' in kueue.wait_answered("late", "Retry")["message"]


def test_a_scheduler_that_was_killed_keeps_the_place_for_its_pods(kueue, checking):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    kueue.create("train", pod_set(count=3))
    operator = kit.start(cluster, "--pod-intake=watch")
    kueue.reserve_quota("train")
    kueue.wait_answered("train", "Ready")
    operator.process.kill()
    cluster.bulk.create([pod(f"other-{i}", kueue.namespace, scheduler="podwright", cpu="1") for i in range(4)])
    with kit.running(cluster, "--pod-intake=watch"):
        kit.wait_bound(cluster, kueue.namespace, 1)
        kueue.admit("train")
        wait_until(lambda: len(kueue.nodes_of("train")) == 3, 60, "all pods of the Workload are bound")
        assert len(kueue.nodes_of("other")) == 1
