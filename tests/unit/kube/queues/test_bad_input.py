"""Queues as nobody should write them: status and event name object and field, the last valid tree stays, pods wait and
say for what, and other queues notice nothing.
"""

from __future__ import annotations

import pytest

from podwright.api.kai_queue import KAI_LABEL
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.core.queues.validity import MAX_DEPTH
from podwright.engine.process.steps import at_once
from podwright.engine.view.queues import queue_tree
from podwright.kube.queues.kinds import KAI_QUEUES, SCHEDULING_QUEUES
from podwright.kube.write import object_status as module
from podwright.kube.write.write_limit import WriteLimit
from podwright.simulator.queue_rows import rows_of
from support.costs.operation_counts import own_calls
from support.queues.incoming import Queues, queues
from support.waiting import until

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.005)
    monkeypatch.setattr(module, "WriteLimit", lambda: WriteLimit(10_000.0, 1000))


def bound(it: Queues, name: str) -> str:
    queued = it.rig.engine.queue.get(f"default/{name}")
    assert queued is not None
    found = it.core.bounds.of(queued.pod)
    return "" if found is None else found.message


async def refused(it: Queues, name: str, problem: str) -> None:
    """Status and event say this of the queue."""
    message = f"SchedulingQueue {name}: {problem}"
    await until(lambda: name in it.written and it.condition(name)["message"] == message)
    assert (it.condition(name)["status"], it.condition(name)["reason"]) == ("False", "Invalid")
    assert (name, "QueueNotAccepted", message) in it.rig.recorder.events


def steady(it: Queues) -> None:
    """A queue beside the bad ones, with a pod."""
    it.rig.node("n", allocatable={GPU: "8"})
    it.put("steady", resources={GPU: {"limit": 2}})
    it.rig.confirm(it.rig.pod("s", labels={QUEUE_LABEL: "steady"}, requests={GPU: "1"}), "n")


async def is_unharmed(it: Queues) -> None:
    it.rig.pod("t", labels={QUEUE_LABEL: "steady"}, requests={GPU: "2"})
    assert bound(it, "t") == "steady holds 1 of 2 nvidia.com/gpu, and the pod requests 2"
    await until(lambda: "steady" in it.written)
    assert it.condition("steady")["status"] == "True"


async def test_a_cycle_of_parents():
    async with queues() as it:
        steady(it)
        it.put("a", resources={GPU: {"limit": 1}})
        it.put("b", parent="a")
        it.put("a", 2, parent="b", resources={GPU: {"limit": 7}})
        await refused(it, "a", "spec.parent: queue 'b' is below this queue")
        assert [*it.core.path("b")] == ["b", "a"]
        assert it.core.get("a").quotas[GPU].limit == 1
        it.put("c", parent="d")
        it.put("d", parent="c")
        await refused(it, "c", "spec.parent: queue 'd' is below this queue")
        it.rig.pod("p", labels={QUEUE_LABEL: "c"})
        assert bound(it, "p").startswith("queue c is invalid: SchedulingQueue c: spec.parent: ")
        await is_unharmed(it)


async def test_a_parent_that_is_missing_or_deleted():
    async with queues() as it:
        steady(it)
        it.put("lost", parent="nowhere")
        await refused(it, "lost", "spec.parent: queue 'nowhere' does not exist")
        it.rig.pod("p", labels={QUEUE_LABEL: "lost"})
        assert "spec.parent: queue 'nowhere' does not exist" in bound(it, "p")
        it.put("top", resources={GPU: {"limit": 1}})
        it.put("below", parent="top")
        it.rig.pod("q", labels={QUEUE_LABEL: "below"}, requests={GPU: "2"})
        assert bound(it, "q").startswith("top holds 0 of 1")
        it.doors[SCHEDULING_QUEUES].drop("top", None)
        await refused(it, "below", "spec.parent: queue 'top' does not exist")
        assert bound(it, "q").startswith("top holds 0 of 1"), "it bounds those below until they are gone"
        it.doors[SCHEDULING_QUEUES].drop("below", None)
        assert (it.core.get("top"), bound(it, "q")) == (
            None,
            "queue below does not exist (named by metadata.labels[podwright.dev/queue])",
        )
        await is_unharmed(it)


async def test_a_parent_that_was_never_valid():
    problem = "spec.parent: queue 'top' is not valid"
    async with queues() as it:
        steady(it)
        it.put("below", parent="top")
        await refused(it, "below", "spec.parent: queue 'top' does not exist")
        it.put("top", priority="high")
        it.put("lowest", parent="below")
        await refused(it, "below", problem)
        await refused(it, "lowest", "spec.parent: queue 'top', above queue 'below', is not valid")
        it.rig.pod("p", labels={QUEUE_LABEL: "below"})
        assert problem in bound(it, "p")
        page = {line.name: line.problem for line in at_once(queue_tree(it.core)).lines}
        printed = {row.name: row.problem for row in rows_of(it.core)}
        assert (problem in page["below"], printed["below"]) == (True, problem)
        it.put("top", 2)
        await until(lambda: it.condition("below")["status"] == "True")
        await is_unharmed(it)


async def test_two_queues_for_one_pod():
    async with queues() as it:
        steady(it)
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put("ours", resources={GPU: {"limit": 0}})
        it.rig.pod("p", labels={KAI_LABEL: "steady", QUEUE_LABEL: "ours"}, requests={GPU: "1"})
        assert bound(it, "p") == "ours holds 0 of 0 nvidia.com/gpu"
        [note] = it.rig.recorder.notes("TwoQueues")
        assert note == (
            f"metadata.labels[{KAI_LABEL}] names queue steady, but metadata.labels[{QUEUE_LABEL}] names queue ours, which counts"
        )
        it.rig.pod("q", labels={KAI_LABEL: "ours", QUEUE_LABEL: "ours"})
        assert it.rig.recorder.notes("TwoQueues") == [note], "both name the same queue"
        await is_unharmed(it)


async def test_guarantees_of_children_above_the_parents():
    async with queues() as it:
        steady(it)
        it.put("top", resources={GPU: {"guarantee": 2}})
        for name in ("a", "b"):
            it.put(name, parent="top", resources={GPU: {"guarantee": 2}})
        problem = "the queues right below are guaranteed 4, more than the 2 of this queue"
        await refused(it, "top", f"spec.resources[{GPU}].guarantee: {problem}")
        await until(lambda: {"a", "b"} <= it.written.keys())
        assert [it.condition(name)["status"] for name in ("a", "b")] == ["True", "True"]
        for name in ("a", "b", "a", "b"):
            it.rig.pod(f"p{name}{len(it.core.waiting_pods(name))}", labels={QUEUE_LABEL: name}, requests={GPU: "4"})
        assert [it.core.share(name)[GPU] for name in ("a", "b")] == [4, 3], "evenly"
        await is_unharmed(it)


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ({GPU: {"guarantee": -1}}, "spec.resources[nvidia.com/gpu].guarantee: -1 is less than 0"),
        ({GPU: {"limit": "-1"}}, "spec.resources[nvidia.com/gpu].limit: "),
        ({GPU: {"limit": "9e999"}}, "spec.resources[nvidia.com/gpu].limit: '9e999' is more than 9223372036854775807"),
        ({"cpu": {"limit": "1" * 40}}, "spec.resources.cpu.limit: "),
        ({"cpu": {"lendingLimit": "1u"}}, "spec.resources.cpu.lendingLimit: '1u' is finer than 1m"),
    ],
    ids=["negative", "negative text", "beyond 64 bits", "too long", "too fine"],
)
async def test_negative_and_absurd_quantities(resources, field):
    async with queues() as it:
        steady(it)
        it.put("a", resources={GPU: {"limit": 1}})
        it.put("a", 2, resources=resources)
        await until(lambda: "a" in it.written and field in it.condition("a")["message"])
        assert any(about == "a" and field in note for about, _, note in it.rig.recorder.events)
        assert it.core.get("a").quotas[GPU].limit == 1
        await is_unharmed(it)


async def test_a_flavor_of_which_no_queue_says_the_nodes():
    async with queues() as it:
        steady(it)
        it.put("a", flavors=[{"name": "h100", "resources": {GPU: {"limit": 0}}}])
        problem = "a value is required: no other queue says which nodes have this flavor"
        await refused(it, "a", f"spec.flavors[h100].nodeSelector: {problem}")
        it.rig.pod("p", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"})
        assert bound(it, "p") == "", "there are no such nodes"
        await is_unharmed(it)


async def test_a_queue_that_is_deleted_under_running_pods():
    async with queues() as it:
        steady(it)
        it.put("a", resources={GPU: {"guarantee": 4}})
        it.rig.confirm(it.rig.pod("p", labels={QUEUE_LABEL: "a"}, requests={GPU: "3"}), "n")
        it.rig.pod("q", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"})
        assert it.core.capacity() == {GPU: 8}
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert (it.rig.placed_on("p"), bound(it, "q")) == (
            "n",
            "queue a does not exist (named by metadata.labels[podwright.dev/queue])",
        )
        assert it.core.capacity() == {GPU: 5}, "it holds what no queue has"
        await is_unharmed(it)
        it.put("a", resources={GPU: {"limit": 3}})
        assert bound(it, "q") == "a holds 3 of 3 nvidia.com/gpu"


async def test_a_label_that_names_another_teams_queue():
    async with queues() as it:
        steady(it)
        it.put("red", namespaceSelector={"matchLabels": {"team": "red"}}, resources={GPU: {}})
        it.rig.confirm(it.rig.pod("p", labels={QUEUE_LABEL: "red"}, requests={GPU: "1"}), "n")
        it.rig.pod("q", labels={QUEUE_LABEL: "red"}, requests={GPU: "1"})
        assert bound(it, "q").startswith(
            "namespace default may not use queue red (named by metadata.labels[podwright.dev/queue]): spec.namespaceSelector"
        )
        assert (dict(it.core.usage("red")), it.core.waiting_pods("red")) == ({}, [])
        await is_unharmed(it)


async def test_a_hundred_levels_and_not_one_more():
    async with queues() as it:
        steady(it)
        for level in reversed(range(MAX_DEPTH + 2)):
            it.put(f"q{level}", parent=f"q{level - 1}" if level else "", resources={GPU: {"limit": 200 - level}})
        for level in (MAX_DEPTH, MAX_DEPTH + 1):
            await refused(it, f"q{level}", f"spec.parent: there are more than {MAX_DEPTH} levels of queues")
        for level in (0, MAX_DEPTH - 1):
            await until(lambda level=level: f"q{level}" in it.written)
            assert it.condition(f"q{level}")["status"] == "True"
        it.rig.pod("p", labels={QUEUE_LABEL: f"q{MAX_DEPTH - 1}"}, requests={GPU: "150"})
        assert bound(it, "p").startswith(f"q{MAX_DEPTH - 1} holds 0 of {201 - MAX_DEPTH} nvidia.com/gpu")
        await is_unharmed(it)


async def test_ten_thousand_queues_cost_so_many_steps_each():
    """All come in, one is invalid, and one changes: the change costs what it costs beside few."""

    def calls_of_a_change(it: Queues, count: int) -> int:
        for number in range(count):
            it.put(f"q{number}", parent="q0" if number else "", resources={GPU: {"guarantee": number % 3}})
        it.put("lost", parent="nowhere", resources={GPU: {}})
        it.core.shared_out()
        with own_calls() as calls:
            it.put("q1", 2, parent="q0", resources={GPU: {"guarantee": 2}})
            it.put("new", parent="q0", resources={GPU: {"guarantee": 2}})
            it.core.path("q1")
            it.doors[SCHEDULING_QUEUES].drop("new", None)
            it.core.path("q1")
        return calls.total()

    async with queues() as few, queues() as many:
        steady(many)
        assert calls_of_a_change(many, 10_000) <= calls_of_a_change(few, 100) + 20
        many.rig.pod("p", labels={QUEUE_LABEL: "lost"})
        assert "spec.parent: queue 'nowhere' does not exist" in bound(many, "p")
        many.rig.pod("t", labels={QUEUE_LABEL: "steady"}, requests={GPU: "2"})
        assert bound(many, "t") == "steady holds 1 of 2 nvidia.com/gpu, and the pod requests 2"
