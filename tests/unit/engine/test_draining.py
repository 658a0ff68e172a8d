"""The pods of a queue in state Drain are evicted, within budgets, and wait until the queue is open again."""

from __future__ import annotations

import pytest

from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.engine import draining
from support.engine.kit import Rig, on_node, ours
from support.objects.builders import make_namespace


def rig_with(pods: int = 2, queue: str = "a", spec=None) -> Rig:
    """A queue `a` below `top`, and a queue `b`, on one node with some pods of one of them."""
    rig = Rig()
    rig.evictor.waits = True
    for name, parent in (("top", ""), ("a", "top"), ("b", "")):
        state(rig, name, "Open", parent)
    rig.node("n")
    for number in range(pods):
        put(rig, number, queue, spec)
    return rig


def state(rig: Rig, name: str, word: str, parent: str = "") -> None:
    queues_of(rig.engine.cache).set(QueueRules(name, parent, state=word))


def put(
    rig: Rig, number: int, queue: str = "a", spec=None, owner: str = "", started: int | None = None, **more
) -> None:
    """A running pod, which by default is younger than those with smaller numbers."""
    labels = {**({QUEUE_LABEL: queue} if queue else {}), **more.pop("labels", {})}
    at = f"1970-01-01T00:00:{number if started is None else started:02}Z"
    owners = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "startTime": at, "conditions": ready, **more}
    metadata = {"creationTimestamp": at, "ownerReferences": owners}
    pod = ours(f"p{number}", labels=labels, spec=spec or {}, status=status, metadata=metadata)
    rig.engine.assigned.put(on_node(pod, "n"))


def budget(rig: Rig, allowed: int, **labels: str) -> None:
    selector = {"matchLabels": labels}
    metadata = {"name": "budget", "namespace": "default", "uid": "budget"}
    raw = {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}}
    rig.engine.objects("PodDisruptionBudget").put(raw)


async def evicted(rig: Rig) -> list[str]:
    """The pods whose evictions have begun since the last call."""
    rig.evictor.evicted.clear()
    await rig.engine.drained_queues.evict()
    return [name for name, _, _ in rig.evictor.evicted]


async def test_the_pods_of_a_drained_queue_are_evicted_the_youngest_first_within_budgets():
    rig = rig_with()
    put(rig, 2, "b")
    put(rig, 3, "")
    assert await evicted(rig) == []
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p1", "p0"]
    assert rig.evictor.within_budgets == {"p0", "p1"}
    assert {(each.reason, each.note) for each in rig.evictor.events} == {("Evicted", "queue a is in state Drain")}
    assert await evicted(rig) == [], "they terminate"


async def test_so_are_those_of_the_queues_below_it_whatever_their_own_state_is():
    rig = rig_with()
    state(rig, "a", "Hold", "top")
    state(rig, "top", "Drain")
    assert await evicted(rig) == ["p1", "p0"]
    assert {each.note for each in rig.evictor.events} == {"queue top is in state Drain"}


@pytest.mark.parametrize("word", ["Hold", "Closed"])
async def test_in_other_states_pods_stay(word):
    rig = rig_with()
    state(rig, "a", word, "top")
    assert await evicted(rig) == []


async def test_pods_of_other_schedulers_stay():
    rig = rig_with(spec={"schedulerName": "other"})
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == []


async def test_evictions_are_wanted_only_as_long_as_the_queue_is_drained():
    rig = rig_with()
    state(rig, "a", "Drain", "top")
    await evicted(rig)
    assert rig.evictor.wanted["p0"]()
    state(rig, "a", "Open", "top")
    assert not rig.evictor.wanted["p0"]()
    rig.evictor.answers["p0"](False)
    assert not rig.engine.cache.placement("default/p0").pods["default/p0"].terminating
    assert await evicted(rig) == []


async def test_pods_go_in_the_order_of_their_start_however_they_change_and_in_whatever_order_they_came(monkeypatch):
    monkeypatch.setattr(draining, "PODS_PER_STEP", 2)
    rig = rig_with(pods=0)
    for number in (2, 0, 4, 1, 3):
        put(rig, number)
    put(rig, 0, labels={"changed": "yes"})
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p4", "p3", "p2", "p1", "p0"]


async def test_a_budget_that_keeps_pods_delays_no_others_and_costs_no_requests(monkeypatch):
    monkeypatch.setattr(draining, "AT_ONCE", 2)
    rig = rig_with(pods=0)
    for number in range(6):
        put(rig, number, labels={"app": "db" if number > 2 else "web"})
    budget(rig, 0, app="db")
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p2", "p1"]
    assert await evicted(rig) == [], "two are under way"
    for name in ("p2", "p1"):
        rig.evictor.answers[name](True)
    assert await evicted(rig) == ["p0"]
    rig.evictor.answers["p0"](True)
    budget(rig, 1, app="db")
    assert await evicted(rig) == ["p5"]


@pytest.mark.parametrize("more", [{"phase": "Pending"}, {"conditions": []}])
async def test_what_the_eviction_api_may_let_go_in_spite_of_a_budget_is_tried(more):
    rig = rig_with(pods=0)
    put(rig, 0, labels={"app": "db"}, **more)
    budget(rig, 0, app="db")
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p0"]


async def test_a_pod_whose_eviction_was_refused_stays_for_ten_minutes():
    rig = rig_with()
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p1", "p0"]
    rig.evictor.answers["p1"](False)
    rig.now += 599
    assert await evicted(rig) == []
    rig.now += 2
    assert await evicted(rig) == ["p1"]


@pytest.mark.parametrize("kind", ["Node", "DaemonSet"])
async def test_pods_that_belong_to_their_node_stay(kind):
    rig = rig_with(pods=0)
    put(rig, 0, owner=kind)
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == []


async def test_pods_that_their_controller_puts_on_nodes_again_stay_for_ten_minutes():
    rig = rig_with(pods=0)
    rig.now = 20.0
    for number in range(2):
        put(rig, number, owner="Job")
    state(rig, "a", "Drain", "top")
    assert await evicted(rig) == ["p1", "p0"]
    for name in ("p1", "p0"):
        rig.evictor.answers[name](True)
    put(rig, 2, owner="Job", started=30)
    assert await evicted(rig) == []
    rig.now += 601
    assert await evicted(rig) == ["p2"]


async def test_queues_that_change_between_two_evictions_count_as_they_are_then(monkeypatch):
    rig = rig_with(queue="")
    label = lambda name: rig.engine.objects("Namespace").put(make_namespace("default", {QUEUE_LABEL: name}))
    label("a")
    state(rig, "a", "Drain", "top")
    evict = rig.evictor.evict

    def changed(*args, **kwargs) -> None:
        evict(*args, **kwargs)
        label("b")
        state(rig, "a", "Open", "top")
        state(rig, "b", "Drain")

    monkeypatch.setattr(rig.evictor, "evict", changed)
    assert await evicted(rig) == ["p1", "p0"]
    assert [each.note for each in rig.evictor.events] == [f"queue {name} is in state Drain" for name in "ab"]


async def test_a_pod_that_ends_while_others_are_evicted_is_left_alone(monkeypatch):
    rig = rig_with()
    state(rig, "a", "Drain", "top")
    evict = rig.evictor.evict

    def ends(*args, **kwargs) -> None:
        evict(*args, **kwargs)
        metadata = {"deletionTimestamp": "1970-01-01T00:16:40Z"}
        rig.engine.assigned.put(on_node(ours("p0", labels={QUEUE_LABEL: "a"}, metadata=metadata), "n"))

    monkeypatch.setattr(rig.evictor, "evict", ends)
    assert await evicted(rig) == ["p1"]
