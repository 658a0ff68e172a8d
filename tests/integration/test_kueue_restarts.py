"""`podwright admission-check` that is killed, or that ends what it holds. Each test runs its own."""

from __future__ import annotations

from podwright.testing import node, wait_until
from support.kueue import stand_in
from support.kueue.stand_in import pod_set, reservations


def test_a_check_that_was_killed_finds_its_places_and_gives_back_what_nobody_needs(kueue):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4"), node("n1", cpu="4")])
    killed = stand_in.start(cluster)
    for name in ("gone", "stays"):
        kueue.create(name, pod_set(cpu="3"))
        kueue.reserve_quota(name)
        kueue.wait_answered(name, "Ready")
    before = {each["metadata"]["uid"] for each in reservations(cluster)}
    killed.process.kill()
    kueue.delete("gone")
    kueue.create("new", pod_set(cpu="3"))
    kueue.reserve_quota("new")
    started = stand_in.start(cluster)
    try:
        kueue.wait_answered("new", "Ready")
        held = {each["metadata"]["annotations"]["podwright.dev/workload"]: each for each in reservations(cluster)}
        assert {key.partition("/")[2] for key in held} == {"stays", "new"}
        assert held[f"{kueue.namespace}/stays"]["metadata"]["uid"] in before
        assert len({each["spec"]["slots"][0]["node"] for each in held.values()}) == 2
    finally:
        started.process.stop(30)


def test_a_namespace_that_is_deleted_gives_back_the_places_of_its_workloads(kueue):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    checking = stand_in.start(cluster)
    manager = cluster.start_controller_manager(["namespace-controller"])
    try:
        kueue.create("train", pod_set())
        kueue.reserve_quota("train")
        kueue.wait_answered("train", "Ready")
        assert len(reservations(cluster)) == 1
        cluster.client.request("DELETE", f"/api/v1/namespaces/{kueue.namespace}")
        wait_until(lambda: reservations(cluster) == [], 60, "the place is given back")
    finally:
        manager.stop()
        checking.process.stop(30)


def test_a_place_ends_by_itself_and_is_renewed_for_what_still_waits(kueue):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    checking = stand_in.start(cluster, "--hold=3s")
    try:
        for name in ("admitted", "waits"):
            kueue.create(name, pod_set())
            kueue.reserve_quota(name)
            kueue.wait_answered(name, "Ready")
        kueue.admit("admitted", condition_only=True)
        first = {each["metadata"]["uid"] for each in reservations(cluster)}
        keys = lambda: [each["metadata"]["annotations"]["podwright.dev/workload"] for each in reservations(cluster)]
        fresh = lambda: not first & {each["metadata"]["uid"] for each in reservations(cluster)}
        wait_until(lambda: fresh() and keys() == [f"{kueue.namespace}/waits"], 60, "one is over, the other renewed")
        kueue.wait_answered("waits", "Ready")
    finally:
        checking.process.stop(30)


def test_another_replica_answers_when_the_leader_is_killed(kueue):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    times = (
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    )
    leader = stand_in.start(cluster, "--leader-elect", *times, name="leader")
    standby = stand_in.start(cluster, "--leader-elect", *times, name="standby")
    try:
        kueue.create("first", pod_set(cpu="2"))
        kueue.reserve_quota("first")
        kueue.wait_answered("first", "Ready")
        leader.process.kill()
        kueue.create("second", pod_set(cpu="3"))
        kueue.reserve_quota("second")
        assert "0 of 1 pod fit" in kueue.wait_answered("second", "Retry")["message"]
    finally:
        standby.process.stop(30)


def test_what_can_never_fit_is_rejected_if_the_flag_says_so(kueue):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4")])
    checking = stand_in.start(cluster, "--reject-what-never-fits")
    try:
        for name, cpu in (("big", "5"), ("placed", "3"), ("late", "3")):
            kueue.create(name, pod_set(cpu=cpu))
            kueue.reserve_quota(name)
            kueue.wait_answered(name, {"big": "Rejected", "placed": "Ready", "late": "Retry"}[name])
        assert kueue.check("big")["message"].startswith("can never fit: ")
        assert "requeueAfterSeconds" not in kueue.check("big")
    finally:
        checking.process.stop(30)
