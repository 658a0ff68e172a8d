"""Who may be a victim of whom between and inside queues. ADR 0019 has the rule."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from podwright.core.cycle import Placement, Rejection
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod_group import WORKLOAD_API, group_key
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import Quota
from podwright.core.state.nominator import SYSTEM_CRITICAL
from podwright.core.state.transaction import CacheTransaction
from support.costs.operation_counts import own_calls
from support.gangs.kit import ZONE, budget
from support.objects.builders import in_group, make_node
from support.queues.reclaims import GPU, QueuedCluster, queue


def test_a_pod_of_a_queue_under_its_share_evicts_one_of_a_queue_above_its_share():
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    for name in ("b1", "b2"):
        cluster.runs(name, "b", "n0", priority=1000)
    decision = cluster.decide(cluster.waits("a1", "a"))
    assert decision.nominated_node == "n0"
    assert len(decision.victims) == 1


def test_nobody_is_evicted_for_a_pod_above_its_queues_share():
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    cluster.runs("a1", "a", "n0", priority=1000)
    cluster.runs("b1", "b", "n0")
    assert cluster.victims(cluster.waits("a2", "a", priority=1000)) == []


def test_a_queue_keeps_its_guarantee_though_its_share_is_smaller():
    queues = [queue("a"), queue("b", gpu={"guarantee": 3}), queue("c", gpu={"guarantee": 3})]
    cluster = QueuedCluster([4], queues)
    for name in ("b1", "b2", "b3"):
        cluster.runs(name, "b", "n0")
    cluster.runs("c1", "c", "n0")
    cluster.waits("c2", "c")
    assert cluster.victims(cluster.waits("c3", "c")) == []


def test_a_guarantee_counts_no_pods_whose_bindings_are_not_confirmed():
    cluster = QueuedCluster([3], [queue("a"), queue("b", gpu={"guarantee": 2, "weight": 0})])
    for name in ("b1", "b2"):
        cluster.runs(name, "b", "n0")
    assumed = cluster.waits("b3", "b")
    cluster.cache.assume(assumed, "n0")
    claimant = cluster.waits("a1", "a")
    assert cluster.victims(claimant) == []
    cluster.cache.set_pod(replace(assumed.on("n0"), start_time=cluster.now))
    assert len(cluster.victims(claimant)) == 1


class TestSeveralResources:
    """Queue b has one pod for each CPU of its guarantee, and more GPUs than its share."""

    @staticmethod
    def cluster(**b: int) -> QueuedCluster:
        queues = [
            QueueRules("a", quotas={GPU: Quota(guarantee=2), "cpu": Quota()}),
            QueueRules("b", quotas={GPU: Quota(), "cpu": Quota(**b)}),
        ]
        cluster = QueuedCluster([4], queues)
        for i in range(4):
            cluster.runs(f"b{i}", "b", "n0", requests={"cpu": "4"})
        return cluster

    def test_what_is_guaranteed_of_another_resource_is_kept(self):
        cluster = self.cluster(guarantee=16_000)
        assert cluster.victims(cluster.waits("a1", "a")) == []
        cluster.queues.set(QueueRules("b", quotas={GPU: Quota(), "cpu": Quota(guarantee=12_000)}))
        assert len(cluster.victims(cluster.waits("a1", "a"))) == 1

    def test_a_guarantee_without_a_bound_protects_only_what_is_scarce_itself(self):
        cluster = self.cluster(guarantee=UNBOUNDED)
        assert len(cluster.victims(cluster.waits("a1", "a"))) == 1
        cluster.queues.set(QueueRules("b", quotas={GPU: Quota(guarantee=UNBOUNDED), "cpu": Quota()}))
        assert cluster.victims(cluster.waits("a1", "a")) == []

    def test_the_share_of_a_resource_of_which_enough_is_free_is_not(self):
        cluster = self.cluster()
        assert cluster.queues.share("b")["cpu"] == 16_000
        assert len(cluster.victims(cluster.waits("a1", "a", requests={"cpu": "1"}))) == 1

    def test_the_shares_of_all_that_is_scarce_are_kept(self):
        """A queue that holds the CPUs is above its share of these, and b is above its share of GPUs alone."""
        cluster = self.cluster()
        cluster.queues.set(QueueRules("c", quotas={"cpu": Quota(weight=0)}))
        cluster.runs("c1", "c", "n0", 0, requests={"cpu": "48"})
        cluster.waits("b-more", "b", 0, requests={"cpu": "16"})
        claimant = cluster.waits("a1", "a", requests={"cpu": "1"})
        assert cluster.victims(claimant) == []
        cluster.runs("c1", "c", "n0", 0, requests={"cpu": "47"})
        assert len(cluster.victims(claimant)) == 1


def test_room_is_taken_without_evictions_whatever_the_shares():
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    cluster.runs("a1", "a", "n0")
    cluster.waits("b1", "b")
    assert isinstance(cluster.decide(cluster.waits("a2", "a")), Placement)


def test_nobody_is_evicted_for_a_rounding_unit():
    """Of four GPUs one of three queues has two. Whose that is depends on names, not on need."""
    cluster = QueuedCluster([4], [queue("a"), queue("b"), queue("c")])
    cluster.runs("a1", "a", "n0")
    cluster.runs("b1", "b", "n0")
    cluster.runs("c1", "c", "n0")
    cluster.runs("c2", "c", "n0")
    for name in "bc":
        cluster.waits(f"{name}3", name)
    waiting = cluster.waits("a2", "a")
    assert cluster.queues.share("a")["nvidia.com/gpu"] == 2
    assert cluster.victims(waiting) == []


def test_a_share_that_is_only_due_to_rounding_is_taken_from_a_queue_with_more():
    """Otherwise a queue of three on two GPUs would get none as long as another one has both."""
    cluster = QueuedCluster([2], [queue("a"), queue("b"), queue("c")])
    cluster.runs("c1", "c", "n0")
    cluster.runs("c2", "c", "n0")
    cluster.waits("c3", "c")
    cluster.waits("b1", "b")
    assert len(cluster.victims(cluster.waits("a1", "a"))) == 1


class TestInsideAQueue:
    def test_a_higher_priority_takes_from_a_lower_one(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b")])
        cluster.runs("low", "a", "n0", priority=1)
        cluster.runs("b1", "b", "n0", priority=0)
        assert cluster.victims(cluster.waits("high", "a", priority=2)) == ["low"]

    def test_an_equal_priority_takes_nothing(self):
        cluster = QueuedCluster([1], [queue("a")])
        cluster.runs("low", "a", "n0", priority=1)
        assert cluster.victims(cluster.waits("high", "a", priority=1)) == []

    def test_a_pod_without_a_queue_is_no_victim_of_a_pod_with_one(self):
        cluster = QueuedCluster([1], [queue("a")])
        cluster.runs("plain", "", "n0", priority=0)
        assert cluster.victims(cluster.waits("high", "a", priority=9)) == []

    def test_a_pod_without_a_queue_takes_from_lower_priorities_in_queues(self):
        cluster = QueuedCluster([1], [queue("a", gpu={"guarantee": 1})])
        cluster.runs("low", "a", "n0", priority=0)
        assert cluster.victims(cluster.pod("plain", "", priority=1)) == ["low"]


class TestHierarchies:
    """Two departments of two teams each on eight GPUs: each department's share is four, each team's two."""

    QUEUES = (
        queue("x"),
        queue("y"),
        *(queue(f"{dept}{team}", dept) for dept in "xy" for team in "12"),
    )

    def cluster(self, **running: int) -> QueuedCluster:
        """With so many pods running in each team; all want more."""
        cluster = QueuedCluster([8], self.QUEUES)
        for team, count in running.items():
            for i in range(count):
                cluster.runs(f"{team}-{i}", team, "n0")
            for i in range(8):
                cluster.waits(f"{team}-w{i}", team)
        return cluster

    @pytest.mark.parametrize(
        ("running", "claimant", "victims_of"),
        [
            pytest.param({"x1": 2, "x2": 3, "y1": 2, "y2": 1}, "y2", "x2", id="from the department above its share"),
            pytest.param({"x1": 3, "x2": 1, "y1": 2, "y2": 2}, "x2", "x1", id="from the other team of the department"),
            pytest.param({"x1": 3, "x2": 1, "y1": 4, "y2": 0}, "y2", "y1", id="not from a department at its share"),
            pytest.param({"x1": 4, "x2": 0, "y1": 4, "y2": 0}, "x2", "x1", id="not beyond the department's own share"),
        ],
    )
    def test_each_level_keeps_its_share(self, running, claimant, victims_of):
        cluster = self.cluster(**running)
        victims = cluster.victims(cluster.waits("claimant", claimant))
        assert [victim.partition("-")[0] for victim in victims] == [victims_of]


class TestMinimumRuntimes:
    def test_another_queue_waits_for_the_runtime(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b", reclaim_min_runtime=600.0)])
        for name in ("b1", "b2"):
            cluster.runs(name, "b", "n0", since=599)
        waiting = cluster.waits("a1", "a")
        assert cluster.victims(waiting) == []
        cluster.now += 1
        assert len(cluster.victims(waiting)) == 1

    def test_a_higher_priority_waits_for_the_runtime(self):
        cluster = QueuedCluster([1], [queue("a", preempt_min_runtime=600.0, reclaim_min_runtime=9e9)])
        cluster.runs("low", "a", "n0", since=599)
        waiting = cluster.waits("high", "a", priority=1)
        assert cluster.victims(waiting) == []
        cluster.now += 1
        assert cluster.victims(waiting) == ["low"]

    def test_the_runtime_of_a_department_protects_its_teams_from_others(self):
        queues = [queue("x", reclaim_min_runtime=600.0), queue("x1", "x"), queue("x2", "x"), queue("y")]
        cluster = QueuedCluster([2], queues)
        for name in ("one", "two"):
            cluster.runs(name, "x1", "n0", since=10)
        assert cluster.victims(cluster.waits("other", "y")) == []
        cluster.queues.remove_waiting("default/other")
        assert len(cluster.victims(cluster.waits("same", "x2"))) == 1


class TestMaximumRuntime:
    @pytest.mark.parametrize("claimant", ["a", "b"], ids=["for another queue", "for its own queue"])
    def test_a_pod_that_has_run_for_too_long_goes_whatever_its_queue_has(self, claimant):
        queues = [queue("a", gpu={"guarantee": 2}), queue("b", gpu={"guarantee": 2}, max_runtime=600.0)]
        cluster = QueuedCluster([2], queues)
        cluster.runs("b1", "b", "n0", since=600, priority=9)
        cluster.runs("b2", "b", "n0", since=599, priority=0)
        waiting = cluster.waits("a1", claimant)
        assert cluster.victims(waiting) == []
        cluster.now += 0.5
        assert cluster.victims(waiting) == ["b1"]

    def test_the_bound_of_a_department_holds_for_its_teams(self):
        guaranteed = {"guarantee": 1}
        queues = [queue("x", max_runtime=600.0), queue("x1", "x", gpu=guaranteed), queue("y", gpu=guaranteed)]
        cluster = QueuedCluster([1], queues)
        cluster.runs("one", "x1", "n0", since=601)
        assert cluster.victims(cluster.waits("other", "y")) == ["one"]

    def test_a_queue_above_its_share_takes_nothing(self):
        """The others would take its gains back at once."""
        cluster = QueuedCluster([2], [queue("a"), queue("b", max_runtime=600.0)])
        cluster.runs("a1", "a", "n0")
        cluster.runs("b1", "b", "n0", since=900)
        assert cluster.victims(cluster.waits("a2", "a")) == []

    def test_the_minimum_runtime_and_a_limit_hold_nevertheless(self):
        options = {"max_runtime": 60.0, "preempt_min_runtime": 120.0}
        cluster = QueuedCluster([8], [queue("a", gpu={"limit": 1}, **options)])
        cluster.runs("old", "a", "n0", since=100)
        waiting = cluster.waits("next", "a")
        assert cluster.victims(waiting) == []
        cluster.now += 20
        assert cluster.victims(waiting) == ["old"]

    def test_a_pod_waits_for_its_victim_of_equal_priority(self):
        cluster = QueuedCluster([1], [queue("a", max_runtime=60.0)])
        old = cluster.runs("old", "a", "n0")
        waiting = cluster.waits("next", "a")
        cluster.cache.nominator.add(waiting, "n0")
        cluster.terminates(old)
        assert "terminating pod on the nominated node" in cluster.decide(waiting).message

    def test_pods_that_might_be_too_old_are_tried_again(self):
        cluster = QueuedCluster([1], [queue("a", max_runtime=60.0, gpu={"weight": 0}), queue("b")])
        cluster.runs("old", "a", "n0", since=1)
        waiting = cluster.waits("next", "a")
        assert cluster.queues.turns.due_claims() == [waiting.uid]


@pytest.mark.parametrize("lost", ["cordoned", "deleted"])
def test_what_ends_on_a_node_that_takes_no_pods_frees_nothing(lost):
    """Else GPUs would not be scarce, and the other queue would keep its share of one of the resources only."""
    rules = [
        QueueRules(name, priority=priority, quotas={GPU: Quota(), "cpu": Quota(weight=cpu)})
        for name, priority, cpu in (("a", 100, 1), ("b", 200, 0), ("c", 0, 0))
    ]
    cluster = QueuedCluster([2, 2], rules)
    for name in ("b0", "b1"):
        cluster.runs(name, "b", "n0", requests={"cpu": "1"})
    cluster.terminates(cluster.runs("c0", "c", "n1", 2))
    node = cluster.cache.nodes["n1"].node
    if lost == "deleted":
        cluster.cache.remove_node("n1")
    else:
        cluster.cache.set_node(replace(node, unschedulable=True))
    assert cluster.victims(cluster.waits("a0", "a", requests={"cpu": "1"})) == []


def test_a_gang_that_holds_room_evicts_nobody_else_while_a_victim_on_another_node_is_at_its_limit():
    rules = [queue("a", gpu={"guarantee": 2, "limit": 2}), queue("b"), queue("c", gpu={"guarantee": 4})]
    cluster = QueuedCluster([2, 2, 4], rules)
    cluster.runs("busy", "", "n0", 0, requests={"cpu": "32"}, priority=9)
    low = cluster.runs("low", "a", "n1", 2)
    for name in ("b0", "b1"):
        cluster.runs(name, "b", "n2", 2)
    for number in range(4):
        cluster.waits(f"c{number}", "c")
    cluster.gang("g", "a", 2, priority=5)
    members = [pod for pod in cluster.queues.waiting_pods("a") if pod.group]
    for member in members:
        cluster.cache.nominator.add(member, "n0")
    cluster.cache.nominator.hold_room([member.uid for member in members])
    assert cluster.gang_victims("g") == ["low"]
    cluster.terminates(low)
    assert cluster.gang_victims("g") == []


class TestFirmPods:
    def test_they_are_never_victims_of_queues(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b", firm_priority=100)])
        cluster.runs("firm", "b", "n0", priority=100)
        cluster.runs("high", "b", "n0", priority=99)
        cluster.waits("b-more", "b", priority=0)
        assert cluster.victims(cluster.waits("a1", "a")) == ["high"]
        cluster.runs("high", "b", "n0", priority=100)
        assert cluster.victims(cluster.waits("a1", "a")) == []
        assert cluster.victims(cluster.waits("b3", "b", priority=2_000_000_000)) == []

    def test_policies_say_which_these_are(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b", firm_priority=100)])
        cluster.queues.preemptible_by_policy = lambda pod: {"firm": False, "high": True}.get(pod.name)
        cluster.runs("firm", "b", "n0", priority=0)
        cluster.runs("high", "b", "n0", priority=100)
        cluster.waits("b-more", "b", priority=0)
        assert cluster.victims(cluster.waits("a1", "a")) == ["high"]

    def test_a_gang_with_one_stays_as_a_whole(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b", firm_priority=100)])
        cluster.group("g", 2)
        for name, priority in (("g1", 100), ("g2", 0)):
            cluster.runs(name, "b", "n0", priority=priority, spec=in_group("g"))
        cluster.queues.set(queue("a", gpu={"guarantee": 2}))
        assert cluster.victims(cluster.waits("a1", "a")) == []
        cluster.queues.set(queue("b"))
        assert cluster.victims(cluster.waits("a1", "a")) == ["g1", "g2"]


def owned_by(kind: str):
    return {"metadata": {"ownerReferences": [{"kind": kind, "name": "o", "uid": "o", "controller": True}]}}


class TestPodsThatWouldComeBack:
    @pytest.fixture
    def cluster(self):
        made = QueuedCluster([2], [queue("a", gpu={"guarantee": 2}), queue("b", gpu={"limit": 2})])
        made.queues.serves = lambda name: name == "default-scheduler"
        return made

    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"spec": {"schedulerName": "other"}}, id="of another scheduler"),
            pytest.param(owned_by("DaemonSet"), id="of a DaemonSet"),
            pytest.param(owned_by("Node"), id="static"),
            pytest.param({"priority": SYSTEM_CRITICAL}, id="system-critical"),
        ],
    )
    def test_they_count_in_their_queue_and_are_no_victims_of_queues(self, cluster, options):
        stays = cluster.runs("stays", "b", "n0", 2, **options)
        assert cluster.queues.usage("b")[GPU] == 2
        assert cluster.victims(cluster.waits("a1", "a")) == []
        assert cluster.victims(cluster.waits("b1", "b", priority=SYSTEM_CRITICAL + 1000)) == []
        cluster.gang("g", "a", 2)
        assert cluster.gang_victims("g") == []
        none = cluster.pod("none", "", priority=SYSTEM_CRITICAL + 1000)
        assert cluster.victims(none) == ["stays"], "as in kube-scheduler"
        cluster.terminates(stays)
        assert cluster.decide(cluster.waits("a2", "a")).nominated_node == "n0", "its room will be free"

    def test_a_gang_with_one_stays_as_a_whole(self, cluster):
        cluster.group("g", 1)
        cluster.runs("ours", "b", "n0", spec=in_group("g"))
        cluster.runs("spare", "b", "n0", spec={**in_group("g"), "schedulerName": "other"}, since=10)
        assert cluster.victims(cluster.waits("a1", "a")) == []
        cluster.queues.serves = None
        assert cluster.victims(cluster.waits("a2", "a", 2)) == ["ours", "spare"]


class TestGangsWithSpares:
    """A gang of which the minimum is on the first node, and members beyond it, which go with it, on the second one."""

    HERE: ClassVar = {"nodeSelector": {ZONE: "z0"}}

    def gang(self, cluster):
        cluster.group("g", 1, whole=False)
        cluster.cache.groups.eviction_by_policy = lambda _pod: "Whole"

    def made(self, **options):
        """`options`: of the member that started last."""
        cluster = QueuedCluster(
            [1, 2], [queue("a", gpu={"guarantee": 1}), queue("b", reclaim_min_runtime=60, firm_priority=7)]
        )
        self.gang(cluster)
        cluster.runs("ours", "b", "n0", spec=in_group("g"), since=3600)
        cluster.runs("spare0", "b", "n1", spec=in_group("g"), since=600)
        cluster.runs("spare1", "b", "n1", spec=in_group("g"), **{"since": 300, **options})
        return cluster

    def victims_of_gang(self, cluster, members):
        """Of one that may only be on the first node."""
        cluster.group("h", members)
        for number in range(members):
            pod = cluster.waits(f"h-{number}", "a", spec={**in_group("h"), **self.HERE})
            cluster.cache.groups.add_waiting(pod)
        return cluster.gang_victims("h")

    @pytest.mark.parametrize(
        ("options", "queues"),
        [
            pytest.param({"since": 10}, [], id="one has not run for long enough"),
            pytest.param({"priority": 9}, [], id="one is not preemptible"),
            pytest.param({"labels": {"app": "db"}}, [], id="a budget keeps one"),
            pytest.param({}, [queue("b", gpu={"guarantee": 2})], id="its queue is guaranteed those"),
        ],
    )
    def test_what_keeps_a_spare_keeps_the_minimum(self, options, queues):
        cluster = self.made()
        assert cluster.victims(cluster.waits("a1", "a", spec=self.HERE)) == ["ours", "spare0", "spare1"]
        assert self.victims_of_gang(cluster, 1) == ["ours", "spare0", "spare1"]
        cluster = self.made(**options)
        cluster.allow("db", 0)
        for rules in queues:
            cluster.queues.set(rules)
        assert cluster.victims(cluster.waits("a1", "a", spec=self.HERE)) == []
        assert self.victims_of_gang(cluster, 1) == []
        assert cluster.victims(cluster.waits("a2", "a")) in (["spare0"], ["spare1"])

    @pytest.mark.parametrize(("priority", "going"), [(4, []), (6, ["ours", "spare0", "spare1"])])
    def test_a_spare_of_a_higher_priority_is_not_evicted_in_its_own_queue(self, priority, going):
        cluster = self.made(priority=5)
        assert cluster.victims(cluster.waits("b1", "b", priority=priority, spec=self.HERE)) == going

    def test_spares_that_go_alone_count_once(self):
        cluster = QueuedCluster([3, 2], [queue("a", gpu={"guarantee": 3}), queue("b", gpu={"guarantee": 2})])
        cluster.runs("stays", "b", "n1", 2)
        self.gang(cluster)
        for name, since in (("ours", 3600), ("spare0", 600), ("spare1", 300)):
            cluster.runs(name, "b", "n0", spec=in_group("g"), since=since)
        assert cluster.victims(cluster.waits("a1", "a", 3)) == ["ours", "spare0", "spare1"]
        assert self.victims_of_gang(cluster, 3) == ["ours", "spare0", "spare1"]

    def test_spares_go_with_the_minimum_that_frees_a_limit(self):
        cluster = QueuedCluster([4, 2], [queue("b", gpu={"limit": 3})])
        self.gang(cluster)
        cluster.runs("ours", "b", "n0", 2, spec=in_group("g"), since=3600)
        cluster.runs("spare", "b", "n1", spec=in_group("g"), since=300, priority=3)
        assert cluster.victims(cluster.waits("b1", "b", 2, priority=5)) == ["ours", "spare"]


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_pod_that_an_interrupted_eviction_left_in_its_budget_needs_the_budgets_consent(allowed):
    """The Eviction API refuses it for two minutes, unless the budget allows another disruption."""
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    for name in ("b0", "b1"):
        cluster.runs(name, "b", "n0", labels={"app": name})
    interrupted = budget("b1", allowed, {"app": "b1"})
    interrupted["status"]["disruptedPods"] = {"b1": "2026-01-01T00:00:00Z"}
    cluster.cache.set_object("PodDisruptionBudget", interrupted)
    cluster.allow("b0", 0)
    assert cluster.victims(cluster.waits("a0", "a")) == ["b1"] * allowed


def test_a_victim_whose_eviction_violates_a_budget_is_spared():
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    for name in ("b1", "b2"):
        cluster.runs(name, "b", "n0", labels={"app": "db"})
    waiting = cluster.waits("a1", "a")
    assert len(cluster.victims(waiting)) == 1
    cluster.allow("db", 0)
    assert cluster.victims(waiting) == []


def test_the_least_valuable_victim_goes():
    cluster = QueuedCluster([6], [queue("a"), queue("b"), queue("c")])
    cluster.runs("c-low", "c", "n0", priority=0)
    cluster.runs("c2", "c", "n0", priority=9)
    cluster.runs("c3", "c", "n0", priority=9)
    cluster.runs("b-young", "b", "n0", priority=5, since=10)
    cluster.runs("b-old", "b", "n0", priority=5, since=20)
    cluster.runs("b-high", "b", "n0", priority=6)
    cluster.waits("b-more", "b", 3)
    cluster.waits("c-more", "c", 3)
    assert cluster.victims(cluster.waits("a1", "a")) == ["c-low"]
    cluster.runs("c-low", "c", "n0", priority=6)
    cluster.queues.set(queue("c", gpu={"guarantee": 3}))
    assert cluster.victims(cluster.waits("a1", "a")) == ["b-young"]


class TestWhereVictimsAreSearched:
    def test_a_claimant_costs_the_same_beside_many_alike(self):
        def calls_for(count):
            cluster = QueuedCluster([1] * count, [queue("a"), queue("b")])
            for i in range(count):
                cluster.runs(f"b{i}", "b", f"n{i}")
            first = cluster.waits("first", "a")
            (victim,) = cluster.decide(first).victims
            cluster.terminates(victim)
            cluster.cache.nominator.add(first, victim.node_name)
            cluster.cache.nominator.hold_room([first.uid])
            pod = cluster.waits("a", "a")
            with own_calls() as found:
                assert len(cluster.victims(pod)) == 1
            return found["DefaultPreemption._victims_of_claim"]

        assert calls_for(50) == calls_for(10) == 1

    def test_all_nodes_are_tried_if_the_last_one_might_be_the_cheapest(self):
        cluster = QueuedCluster([2] * 6, [queue("a"), queue("b")])
        for i in range(6):
            cluster.runs(f"old{i}", "b", f"n{i}", since=1000 - 100 * (i == 4))
            cluster.runs(f"young{i}", "b", f"n{i}", since=10)
        assert cluster.victims(cluster.waits("a", "a", 2)) == ["old4", "young4"]


def test_terminating_and_nominated_pods_count_as_gone_and_placed():
    """Otherwise several preemptors would claim one surplus, or exceed one share."""
    cluster = QueuedCluster([4], [queue("a"), queue("b")])
    pods = [cluster.runs(f"b{i}", "b", "n0") for i in range(4)]
    claimants = [cluster.waits(f"a{i}", "a") for i in range(3)]
    for claimant in claimants[:2]:
        decision = cluster.decide(claimant)
        [victim] = [each for each in decision.victims if not each.terminating]
        cluster.cache.nominator.add(claimant, "n0")
        cluster.terminates(next(pod for pod in pods if pod.uid == victim.uid))
    assert cluster.victims(claimants[2]) == []


def test_pods_on_deleted_nodes_count_as_gone():
    cluster = QueuedCluster([2, 2], [queue("a"), queue("b")])
    for i in range(4):
        cluster.runs(f"b{i}", "b", f"n{i // 2}")
    cluster.cache.remove_node("n1")
    cluster.waits("b-more", "b", 4)
    assert cluster.queues.usage("b")["nvidia.com/gpu"] == 4
    cluster.queues.set(queue("b", gpu={"guarantee": 2}))
    assert cluster.victims(cluster.waits("a2", "a")) == []


class TestNominationsOutlastTheirVictims:
    """A pod without a queue still terminates, which the plan has counted as gone, too."""

    def test_of_a_pod(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b")])
        cluster.runs("stays", "", "n0")
        cluster.terminates(cluster.runs("plain", "", "n0"))
        claimant = cluster.waits("a0", "a")
        cluster.cache.nominator.add(claimant, "n0")
        assert cluster.decide(claimant).nominated_node is None

    def test_of_a_pod_whose_queue_has_its_share_by_now(self):
        """The room that it has freed went to another queue, and that of its equal, which goes for that one, is left."""
        cluster = QueuedCluster([2], [queue("a", gpu={"weight": 0}), queue("b")])
        cluster.runs("b0", "b", "n0")
        cluster.terminates(cluster.runs("a1", "a", "n0"))
        claimant = cluster.waits("a0", "a")
        assert cluster.decide(claimant).nominated_node == ""
        cluster.cache.nominator.add(claimant, "n0")
        assert cluster.decide(claimant).nominated_node == "n0"

    def test_of_a_gang(self):
        cluster = QueuedCluster([3], [queue("a"), queue("b")])
        cluster.runs("stays", "", "n0")
        cluster.terminates(cluster.runs("plain", "", "n0"))
        members = cluster.cache.groups.members(group_key(WORKLOAD_API, "default", cluster.gang("g", "a", 2))).unplaced()
        for member in members:
            cluster.cache.nominator.add(member, "n0")
        preemption = cluster.decide_gang("g").preemption
        assert preemption is not None
        assert (preemption.victims, preemption.nominations) == ((), {member.uid: "n0" for member in members})


def test_room_that_becomes_free_anyway_is_preferred():
    cluster = QueuedCluster([2, 2], [queue("a"), queue("b")])
    pods = [cluster.runs(f"b{i}", "b", f"n{i // 2}", priority=int(i == 3)) for i in range(4)]
    cluster.waits("b-more", "b", 4)
    cluster.terminates(pods[3])
    assert cluster.victims(cluster.waits("a1", "a")) == ["b3"]


def test_a_pod_of_another_queue_leaves_room_for_the_nominated_pod_whatever_its_priority():
    cluster = QueuedCluster([1], [queue("a"), queue("b")])
    cluster.cache.nominator.add(cluster.waits("a1", "a", priority=0), "n0")
    assert not isinstance(cluster.decide(cluster.waits("b1", "b", priority=1000)), Placement)
    assert isinstance(cluster.decide(cluster.waits("a2", "a", priority=1)), Placement)


class TestHeldRoom:
    """A pod of queue a is nominated to the only node, after the claim of its queue has had others evicted."""

    @pytest.fixture
    def cluster(self):
        made = QueuedCluster([1], [queue("a"), queue("b")])
        made.cache.nominator.add(made.waits("claimant", "a"), "n0")
        made.cache.nominator.hold_room(["default/claimant"])
        return made

    @pytest.mark.parametrize("name", ["", "a", "b"])
    def test_only_system_critical_pods_take_it(self, cluster, name):
        assert isinstance(cluster.decide(cluster.waits("high", name, priority=1_999_999_999)), Rejection)
        cluster.queues.remove_waiting("default/high")
        assert isinstance(cluster.decide(cluster.waits("critical", name, priority=2_000_000_000)), Placement)

    def test_the_claimant_itself_takes_it(self, cluster):
        assert isinstance(cluster.decide(cluster.waits("claimant", "a")), Placement)

    def test_it_is_held_also_after_a_plan_that_was_rolled_back(self, cluster):
        with CacheTransaction(cluster.cache) as transaction:
            transaction.clear_nomination("default/claimant")
            assert isinstance(cluster.decide(cluster.waits("plain", "", priority=9)), Placement)
        assert isinstance(cluster.decide(cluster.pod("plain", "", priority=9)), Rejection)

    def test_on_another_node_it_is_held_by_priority_alone(self, cluster):
        claimant = cluster.waits("claimant", "a")
        cluster.cache.nominator.add(claimant, "n0")
        assert isinstance(cluster.decide(cluster.pod("plain", "", priority=9)), Rejection)
        cluster.cache.nominator.add(claimant, "n1")
        cluster.cache.nominator.add(claimant, "n0")
        assert isinstance(cluster.decide(cluster.pod("plain", "", priority=9)), Placement)

    def test_a_limit_leaves_room_for_the_claimant(self, cluster):
        cluster.cache.set_node(parse_node(make_node("n1", allocatable={"cpu": "8", GPU: "8"})))
        cluster.queues.set(queue("a", gpu={"limit": 1}))
        waiting = cluster.waits("high", "a", priority=9)
        assert "promised" in cluster.decide(waiting).message
        cluster.cache.nominator.remove("default/claimant")
        assert isinstance(cluster.decide(waiting), Placement)


def test_a_nominated_pod_moves_to_the_queue_that_its_namespace_or_label_names():
    cluster = QueuedCluster([1], [queue("a"), queue("b")])
    cache = cluster.cache

    def name_queue(name):
        cache.set_object("Namespace", {"metadata": {"name": "default", "labels": {QUEUE_LABEL: name}}})

    name_queue("a")
    low = cluster.waits("low", "", priority=0)
    cluster.queues.pending = lambda: [low]
    cache.nominator.add(low, "n0")
    higher = cluster.waits("high", "b", priority=1000)
    assert not isinstance(cluster.decide(higher), Placement)
    name_queue("b")
    assert isinstance(cluster.decide(higher), Placement)
    cluster.waits("low", "a", priority=0)
    assert not isinstance(cluster.decide(higher), Placement)


def test_a_nomination_counts_once_while_pods_are_to_be_grouped_again():
    cluster = QueuedCluster([4], [queue("q", gpu={"limit": 4})])
    pod = cluster.waits("p", "", 2)
    cluster.queues.pending = lambda: [pod]
    cluster.cache.set_object("Namespace", {"metadata": {"name": "default", "labels": {QUEUE_LABEL: "q"}}})
    cluster.cache.nominator.add(pod, "n0")
    assert cluster.queues.bounds.of(cluster.waits("other", "q", 2)) is None
    cluster.cache.nominator.remove(pod.uid)
    assert cluster.queues.bounds.of(cluster.waits("another", "q", 4)) is None


class TestLimits:
    def test_a_higher_priority_frees_what_the_limit_forbids_on_any_node(self):
        cluster = QueuedCluster([2, 2], [queue("a", gpu={"limit": 2})])
        cluster.runs("low", "a", "n0", priority=1)
        cluster.runs("mid", "a", "n0", priority=2)
        assert cluster.victims(cluster.waits("high", "a", priority=3)) == ["low"]
        assert cluster.victims(cluster.waits("equal", "a", priority=1)) == []

    def test_the_node_that_becomes_free_is_enough(self):
        cluster = QueuedCluster([2], [queue("a", gpu={"limit": 1}), queue("b")])
        cluster.runs("low", "a", "n0")
        cluster.runs("b1", "b", "n0")
        decision = cluster.decide(cluster.waits("high", "a", priority=1))
        assert (decision.nominated_node, [victim.name for victim in decision.victims]) == ("n0", ["low"])

    def test_further_victims_make_room_on_a_node(self):
        cluster = QueuedCluster([1, 2], [queue("a", gpu={"limit": 2}), queue("b")])
        cluster.runs("low", "a", "n0")
        cluster.runs("b1", "b", "n1")
        cluster.runs("b2", "b", "n1")
        cluster.waits("b-more", "b", 4)
        assert cluster.victims(cluster.waits("high", "a", 2, priority=1)) == []
        cluster.queues.set(queue("b", gpu={"weight": 0}))
        assert cluster.victims(cluster.waits("higher", "a", 2, priority=1)) == ["b1", "b2", "low"]

    def test_a_team_takes_back_its_share_of_a_department_at_its_limit(self):
        queues = [queue("x", gpu={"limit": 4}), queue("x1", "x"), queue("x2", "x")]
        cluster = QueuedCluster([8], queues)
        for i in range(4):
            cluster.runs(f"one{i}", "x1", "n0", priority=9)
        cluster.waits("one-more", "x1", 2)
        assert len(cluster.victims(cluster.waits("two1", "x2"))) == 1

    def test_nobody_is_evicted_for_a_limit_that_stays_exceeded(self):
        cluster = QueuedCluster([8], [queue("a", gpu={"limit": 2})])
        cluster.runs("low", "a", "n0")
        assert cluster.victims(cluster.waits("high", "a", 3, priority=9)) == []

    def test_terminating_pods_are_waited_for(self):
        cluster = QueuedCluster([8], [queue("a", gpu={"limit": 2})])
        going = cluster.runs("low", "a", "n0")
        cluster.runs("other", "a", "n0")
        cluster.terminates(going)
        assert cluster.victims(cluster.waits("high", "a", priority=9)) == []

    def test_what_a_preemptor_costs_does_not_depend_on_how_many_hold_the_limit(self):
        def calls(holders):
            cluster = QueuedCluster([holders + 10], [queue("a", gpu={"limit": holders})])
            node = make_node("n0", allocatable={GPU: str(holders + 10), "pods": "5000"})
            cluster.cache.set_node(parse_node(node))
            for number in range(holders):
                cluster.runs(f"low{number}", "a", "n0", priority=number % 3)
            high = cluster.waits("high", "a", priority=9)
            assert len(cluster.victims(high)) == 1
            with own_calls() as found:
                cluster.decide(high)
            return found.total()

        assert calls(1000) < calls(100) + 100

    def test_the_youngest_holder_of_the_lowest_priority_goes_once_it_may(self):
        cluster = QueuedCluster([3], [queue("a", gpu={"limit": 3}, preempt_min_runtime=60.0)])
        cluster.runs("old", "a", "n0", priority=0, since=500)
        cluster.runs("young", "a", "n0", priority=0, since=30)
        cluster.runs("mid", "a", "n0", priority=1, since=10)
        high = cluster.waits("high", "a", priority=9)
        assert cluster.victims(high) == ["old"]
        cluster.now += 60
        assert cluster.victims(high) == ["young"]

    def test_the_start_of_an_assumed_pod_counts_from_when_it_is_known(self):
        cluster = QueuedCluster([2], [queue("a", gpu={"limit": 1}, preempt_min_runtime=60.0)])
        low = cluster.pod("low", "a")
        cluster.cache.assume(low, "n0")
        high = cluster.waits("high", "a", priority=9)
        cluster.cache.set_pod(replace(low.on("n0"), start_time=cluster.now))
        cluster.now += 61
        assert cluster.victims(high) == ["low"]

    def test_a_nomination_ends_when_the_limit_forbids_it(self):
        cluster = QueuedCluster([2], [queue("a", gpu={"limit": 2}, preempt_min_runtime=9e9)])
        cluster.runs("a1", "a", "n0")
        claimant = cluster.waits("a2", "a", priority=1)
        cluster.cache.nominator.add(claimant, "n0")
        cluster.queues.set(queue("a", gpu={"limit": 1}, preempt_min_runtime=9e9))
        assert cluster.decide(claimant).nominated_node == ""

    def test_what_a_preemptor_has_freed_is_left_to_it(self):
        """Otherwise a pod that comes back would take it, and the preemptor would evict it again."""
        cluster = QueuedCluster([8], [queue("a", gpu={"limit": 1})])
        nominated = cluster.waits("high", "a", priority=9)
        cluster.cache.nominator.add(nominated, "n0")
        waiting = cluster.waits("low", "a")
        assert "promised" in cluster.decide(waiting).message
        assert isinstance(cluster.decide(nominated), Placement)
        cluster.cache.nominator.remove(nominated.uid)
        assert isinstance(cluster.decide(waiting), Placement)
