"""A queue takes room back: victims are evicted within their budgets, and the room is held for the claimant."""

from __future__ import annotations

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API, PLUGINS_KIND
from podwright.core.queue.queued_pod import DEFAULT_WAITS, Place, Waits
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.outcomes.failures import REPEAT_SECONDS
from support.engine.kit import FakeEvictor, Rig, deciding, on_node, ours, settle

ONE = {"cpu": "1"}


def rig_with_queues(evictor: FakeEvictor | None = None, waits: Waits = DEFAULT_WAITS, **options: float) -> Rig:
    """A node of two CPUs that two pods of queue b fill. Queue a wants one. `options`: of the queues."""
    rig = Rig(evictor=evictor, waits=waits)
    rig.evictor.waits = True
    rig.node("n", allocatable={"cpu": "2"})
    queues = queues_of(rig.engine.cache)
    for name in "ab":
        queues.set(QueueRules(name, quotas={"cpu": Quota()}, **options))
    for name in ("b1", "b2"):
        started = {"startTime": "1970-01-01T00:16:40Z"}
        running = ours(name, requests=ONE, priority=100, labels={QUEUE_LABEL: "b"}, status=started)
        rig.engine.assigned.put(on_node(running, "n"))
    return rig


def put(rig: Rig, name: str, queue: str, priority: int, nominated: str = "") -> None:
    status = {"nominatedNodeName": nominated} if nominated else {}
    rig.pod(name, requests=ONE, priority=priority, labels={QUEUE_LABEL: queue} if queue else {}, status=status)


async def test_the_victim_is_evicted_within_its_budget_and_its_successor_leaves_the_room():
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        assert rig.evictor.within_budgets == {victim}
        put(rig, "successor", "b", 100)
        await settle()
        rig.evictor.answers[victim](True)
        rig.engine.assigned.drop(f"default/{victim}", None)
        await settle()
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("a1", "n")]
    assert len(rig.evictor.evicted) == 1


async def test_a_claimant_is_told_what_protects_others_and_other_numbers_make_no_new_event():
    rig = rig_with_queues(reclaim_min_runtime=7200.0)
    put(rig, "a1", "a", 0)
    told = "pods of b are protected by reclaimMinRuntime (2, the first until 1970-01-01T0{}:16:40Z)"
    async with deciding(rig):
        await settle()
        [first] = rig.recorder.notes("FailedScheduling")
        assert first == f"0/1 nodes are available: 1 Insufficient cpu. preemption: {told.format(2)}"
        for hours, notes in ((3, 1), (4, 2)):
            rules = QueueRules("b", quotas={"cpu": Quota()}, reclaim_min_runtime=hours * 3600.0)
            queues_of(rig.engine.cache).set(rules)
            rig.now += REPEAT_SECONDS - 60 * (hours == 3)
            rig.engine.wake()
            await settle()
            assert rig.status.written[-1][1].message.endswith(told.format(hours))
            assert rig.recorder.notes("FailedScheduling") == [first] * notes


@pytest.mark.parametrize(
    ("claimed", "priority", "tried"),
    [
        pytest.param("1", 0, False, id="all is held"),
        pytest.param("500m", 0, True, id="enough is not held"),
        pytest.param("1", 2_000_000_000, True, id="it is system-critical"),
    ],
)
async def test_the_end_of_a_victim_retries_a_waiting_pod_only_if_it_might_use_the_room(claimed, priority, tried):
    rig = rig_with_queues()
    queues_of(rig.engine.cache).set(QueueRules("a", quotas={"cpu": Quota(guarantee=1000)}))
    rig.pod("a1", requests={"cpu": claimed}, labels={QUEUE_LABEL: "a"})
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        spec = {"preemptionPolicy": "Never"}
        rig.pod("waits", requests={"cpu": "500m"}, priority=priority, labels={QUEUE_LABEL: "b"}, spec=spec)
        await settle()
        queued = rig.engine.queue.get("default/waits")
        assert queued.place is Place.UNSCHEDULABLE
        rig.evictor.answers[victim](True)
        rig.engine.assigned.drop(f"default/{victim}", None)
        assert (queued.place is not Place.UNSCHEDULABLE) == tried


@pytest.mark.parametrize("queue", ["", "a"], ids=["without a queue", "of the same queue"])
async def test_the_room_is_held_against_pods_of_higher_priority(queue):
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        rig.evictor.answers[victim](True)
        await settle()
        put(rig, "late", queue, 50)
        await settle()
        rig.engine.assigned.drop(f"default/{victim}", None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("a1", "n")]
    assert len(rig.evictor.evicted) == 1


async def test_a_claimant_whose_place_another_scheduler_takes_gets_another_one():
    rig = rig_with_queues()
    queues_of(rig.engine.cache).set(QueueRules("a", quotas={"cpu": Quota(guarantee=1000)}))
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        rig.evictor.answers[victim](True)
        await settle()
        rig.engine.assigned.put(on_node(ours("theirs", requests=ONE, spec={"schedulerName": "default-scheduler"}), "n"))
        rig.engine.assigned.drop(f"default/{victim}", None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == []
        (other,) = {"b1", "b2"} - {victim}
        assert [each[0] for each in rig.evictor.evicted] == [victim, other]
        rig.evictor.answers[other](True)
        rig.engine.assigned.drop(f"default/{other}", None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("a1", "n")]


async def test_pods_of_queues_are_tried_again_when_one_without_a_queue_gives_up_its_room():
    rig = rig_with_queues()
    gated = {"schedulingGates": [{"name": "later"}]}
    nominated = {"nominatedNodeName": "empty"}
    rig.node("empty", allocatable=ONE)
    rig.engine.pending.put(ours("plain", requests=ONE, priority=5, spec=gated, status=nominated))
    async with deciding(rig):
        rig.pod("waits", requests=ONE, priority=50, labels={QUEUE_LABEL: "a"}, spec={"preemptionPolicy": "Never"})
        await settle()
        assert rig.cluster.bound == []
        rig.engine.pending.put(ours("plain", requests=ONE, priority=5, spec=gated))
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("waits", "empty")]


async def test_pods_of_any_priority_are_tried_again_when_a_claimant_gives_up_its_room():
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        rig.evictor.answers[victim](True)
        put(rig, "a1", "a", 0, nominated="n")
        put(rig, "late", "", 50)
        await settle()
        queues_of(rig.engine.cache).set(QueueRules("a", quotas={"cpu": Quota(limit=0)}))
        rig.engine.assigned.drop(f"default/{victim}", None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == []
        assert [node for name, _, node in rig.status.written if name == "a1"][-1] == ""
        put(rig, "a1", "a", 0)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("late", "n")]


class Prompt(FakeEvictor):
    """A moment later, the victim is gone. `found` says of each claimant how many others had been placed before it had
    somebody evicted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []

    def evict(self, victim, preemptor, _node_name, done, **_options):
        self.found.append((preemptor.name, sum(self.rig.placed_on(name) == "n" for name in ("a1", "a2"))))
        self.rig.now += 0.05
        done(True)
        self.rig.engine.assigned.drop(victim.uid, None)


async def test_a_claimant_whose_victims_are_gone_is_tried_before_those_that_came_after_it():
    rig = rig_with_queues(evictor=Prompt(), waits=Waits(initial_backoff=0.0))
    rig.evictor.rig = rig
    queues_of(rig.engine.cache).set(QueueRules("a", quotas={"cpu": Quota(guarantee=2000)}))
    for name in ("a1", "a2"):
        put(rig, name, "a", 0)
        rig.now += 0.98  # the backoff ends with a whole second
    async with deciding(rig):
        assert rig.evictor.found == [("a1", 0), ("a2", 1)]


@pytest.mark.parametrize(
    "priorities", [{"a1": 0, "a2": 0}, {"a1": 0, "a2": 1}], ids=["same priority", "other priority"]
)
@pytest.mark.parametrize("first", [0, 1], ids=["victim of the first", "victim of the second"])
async def test_claimants_of_one_node_do_not_wait_for_each_others_victims(priorities, first):
    rig = rig_with_queues()
    queues_of(rig.engine.cache).set(QueueRules("a", quotas={"cpu": Quota(guarantee=2000)}))
    for name, priority in priorities.items():
        put(rig, name, "a", priority)
    async with deciding(rig):
        victims = [*rig.evictor.answers]
        for name, priority in priorities.items():
            put(rig, name, "a", priority, nominated="n")
        for victim in victims:
            rig.evictor.answers[victim](True)
        rig.engine.assigned.drop(f"default/{victims[first]}", None)
        await settle()
        ((bound, _),) = rig.cluster.bound
        (waits,) = priorities.keys() - {bound}
        assert priorities[bound] >= priorities[waits]
        assert rig.engine.queue.get(f"default/{waits}").attempts == 1
        rig.engine.assigned.drop(f"default/{victims[1 - first]}", None)
        await settle()
        assert [name for name, _ in rig.cluster.bound] == [bound, waits]
    assert len(rig.evictor.evicted) == 2


async def test_a_refused_eviction_is_tried_again_after_a_while():
    rig = rig_with_queues()
    put(rig, "a1", "a", 0)
    async with deciding(rig):
        (victim,) = rig.evictor.answers
        rig.evictor.answers[victim](False)
        await settle()
        assert rig.counts == {"backoff": 1}
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert len(rig.evictor.evicted) == 2


async def test_other_preemptors_evict_as_before():
    rig = rig_with_queues()
    rig.pod("plain", requests=ONE, priority=1000)
    async with deciding(rig):
        assert len(rig.evictor.evicted) == 1
    assert rig.evictor.within_budgets == set()


@pytest.mark.parametrize("queue", ["a", "b"])
async def test_a_pod_is_tried_again_when_others_have_run_long_enough(queue):
    rig = rig_with_queues(reclaim_min_runtime=100.0, preempt_min_runtime=100.0)
    put(rig, "claimant", queue, 1000)
    async with deciding(rig):
        assert rig.evictor.evicted == []
        for expected in (0, 1):
            rig.now += 60
            rig.engine.wake()
            await settle()
            assert len(rig.evictor.evicted) == expected


async def test_the_next_pod_of_a_queue_is_tried_soon_after_one_that_this_has_helped():
    rig = rig_with_queues(reclaim_min_runtime=100.0)
    rig.node("m", allocatable={"cpu": "2"})
    for name in ("b3", "b4"):
        rig.engine.assigned.put(on_node(ours(name, requests=ONE, labels={QUEUE_LABEL: "b"}), "m"))
    for name in ("a1", "a2", "a3"):
        put(rig, name, "a", 0)
    async with deciding(rig):
        evicted = []
        for seconds in (110, 2, 2, 2):
            rig.now += seconds
            rig.engine.wake()
            await settle()
            evicted.append(len(rig.evictor.evicted))
        assert evicted == [1, 2, 2, 2], "the share of the queue is two"


def budget(rig: Rig, allowed: int) -> None:
    spec, status = {"selector": {"matchLabels": {QUEUE_LABEL: "b"}}}, {"disruptionsAllowed": allowed}
    metadata = {"name": "budget", "namespace": "default", "uid": "budget"}
    rig.engine.objects("PodDisruptionBudget").put({"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_pod_is_tried_again_soon_after_a_budget_allows_disruptions_but_not_all_the_time(deleted):
    rig = rig_with_queues()
    budget(rig, 0)
    put(rig, "claimant", "a", 0)
    async with deciding(rig):
        queued = rig.engine.queue.get("default/claimant")

        async def after(seconds: float) -> tuple[int, int]:
            rig.now += seconds
            rig.engine.wake()
            await settle()
            return queued.attempts, len(rig.evictor.evicted)

        assert await after(32) == (2, 0)
        if deleted:
            rig.engine.objects("PodDisruptionBudget").drop("default/budget", None)
        else:
            budget(rig, 1)
        assert await after(3) == (2, 0)
        assert await after(3) == (3, 1)


@pytest.mark.parametrize(("allowed", "retries"), [(0, 1), (1, 0)])
def test_only_the_end_of_a_budget_that_allowed_no_disruption_retries_claimants(monkeypatch, allowed, retries):
    rig, calls = Rig(), []
    monkeypatch.setattr(rig.engine.queue, "retry_due_soon", lambda: calls.append(None))
    budget(rig, allowed)
    rig.engine.objects("PodDisruptionBudget").drop("default/budget", None)
    assert len(calls) == retries


async def test_a_pod_is_tried_again_when_its_share_grows():
    rig = rig_with_queues()
    queues = queues_of(rig.engine.cache)
    queues.set(QueueRules("a", quotas={"cpu": Quota(weight=0)}))
    put(rig, "a1", "a", 0)
    put(rig, "b3", "b", 0)
    async with deciding(rig):
        assert rig.evictor.evicted == []
        queues.set(QueueRules("a", quotas={"cpu": Quota(weight=1)}))
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert len(rig.evictor.evicted) == 1


def rig_with_departments(siblings: dict[str, str]) -> Rig:
    """A gang of two waits in queue a of department p, which is guaranteed 2 CPUs. Pods of these requests are its own
    siblings, in queue c; queue b has more than its share. No node has room.
    """
    rig = Rig()
    rig.evictor.waits = True
    for name, cpu in (("n", 4), ("m", 16), ("k", 16)):
        rig.node(name, allocatable={"cpu": str(cpu)}, labels={"name": name})
    queues = queues_of(rig.engine.cache)
    for name, parent, guarantee in (("p", "", 2), ("a", "p", 2), ("c", "p", 0), ("b", "", 0), ("e", "", 2)):
        quota = Quota(guarantee=1000 * guarantee, weight=name == "b")
        queues.set(QueueRules(name, parent=parent, quotas={"cpu": quota}))
    for name, where in (("b1", "n"), ("b2", "n"), ("b3", "n"), ("b4", "n"), ("c1", "m"), ("c2", "k")):
        requests = siblings if name.startswith("c") else ONE
        rig.engine.assigned.put(on_node(ours(name, requests=requests, labels={QUEUE_LABEL: name[0]}), where))
    for name in "mk":
        rig.engine.assigned.put(on_node(ours(f"full-{name}", requests={"cpu": "15"}), name))
    for name in ("e1", "e2"):
        rig.pod(name, requests=ONE, labels={QUEUE_LABEL: "e"}, spec={"nodeSelector": {"name": "none"}})
    rig.engine.cache.groups.serve(PLUGINS_API)
    metadata = {"name": "gang", "namespace": "default", "uid": "gang"}
    rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": 2}})
    for name in ("g1", "g2"):
        rig.pod(name, requests=ONE, labels={QUEUE_LABEL: "a", GROUP_LABEL: "gang"})
    return rig


async def test_a_gang_does_not_wait_for_a_victim_whose_room_another_claimant_holds():
    """Department p gives up what the gang takes from b. Of that, pod x holds the room on node k."""
    rig = rig_with_departments(siblings={"cpu": "500m"})
    async with deciding(rig):
        rig.pod("x", requests=ONE, labels={QUEUE_LABEL: "e"}, spec={"nodeSelector": {"name": "k"}})
        await settle()
        assert rig.evictor.answers.keys() == {"b3", "c1", "c2"}
        for victim in ("b3", "c1"):
            rig.evictor.answers[victim](True)
            rig.engine.assigned.drop(f"default/{victim}", None)
            await settle()
        rig.evictor.answers["c2"](True)
        await settle()
        rig.engine.assigned.drop("default/c2", None)
        await settle()
        assert {*rig.cluster.bound} == {("x", "k"), ("g1", "n"), ("g2", "m")}


async def test_a_gang_whose_department_has_its_share_takes_from_that_alone():
    rig = rig_with_departments(siblings=ONE)
    async with deciding(rig):
        await settle()
        assert rig.evictor.answers.keys() == {"c1", "c2"}


async def test_a_gang_takes_its_share_at_once_and_all_its_members_wait_for_the_victims():
    rig = rig_with_queues()
    rig.node("m", allocatable={"cpu": "2"})
    for name in ("b3", "b4"):
        rig.engine.assigned.put(on_node(ours(name, requests=ONE, labels={QUEUE_LABEL: "b"}), "m"))
    rig.engine.cache.groups.serve(PLUGINS_API)
    metadata = {"name": "gang", "namespace": "default", "uid": "gang"}
    rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": 2}})
    for name in ("g1", "g2"):
        rig.pod(name, requests=ONE, labels={QUEUE_LABEL: "a", GROUP_LABEL: "gang"})
    async with deciding(rig):
        victims = [*rig.evictor.answers]
        assert rig.evictor.within_budgets == set(victims)
        assert len(victims) == 2
        for victim in victims:
            assert rig.cluster.bound == []
            rig.evictor.answers[victim](True)
            rig.engine.assigned.drop(f"default/{victim}", None)
            await settle()
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert {name for name, _ in rig.cluster.bound} == {"g1", "g2"}
    assert len(rig.evictor.evicted) == 2
