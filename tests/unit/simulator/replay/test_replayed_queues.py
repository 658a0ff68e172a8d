"""A replay's figures of queues of teams, each computed by hand, on streams of a few pods."""

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.simulator.replay.plots import plots
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, ReplayError, ReplayOptions, replay
from podwright.simulator.replay.stream import Arrival, ReplayStream, sorted_events
from podwright.simulator.replay.tables import markdown, queue_rows
from support.objects.builders import make_policy
from support.objects.queues import queue
from support.simulator.kit import item, node, pod


def comes(time, name, of, runs_for=None, **more):
    labels = {QUEUE_LABEL: of} if of else {}
    return Arrival(time, parse_pod(pod(name, labels=labels, **more)), runs_for)


def cpus(name, guarantee=0, **quota):
    return queue(name, resources={"cpu": {"guarantee": guarantee, **quota}})


def play(queues, *events, end=100.0, candidates=(), cpu="4"):
    stream = ReplayStream(initial=[node("n", cpu=cpu), *queues], events=sorted_events(events), start=0.0, end=end)
    return replay(stream, candidates or [ReplayCandidate(BUILT_IN)], ReplayOptions(samples=100))


def test_waiting_times_and_amounts_are_those_of_each_queue():
    events = [comes(0, f"a{i}", "a", 20) for i in range(2)] + [comes(0, f"b{i}", "b", 20) for i in range(2)]
    (card,) = play([cpus("a", limit="1"), cpus("b")], *events)
    a, b = card.queues
    assert (a.queue, a.arrived, a.placed, a.waiting.longest) == ("a", 2, 2, 20)
    assert (b.queue, b.arrived, b.placed, b.waiting.longest) == ("b", 2, 2, 0)
    assert a.resource == "cpu"
    assert a.allocated == pytest.approx(1000 * 40 / 100, rel=0.05), "1 CPU for 40 of 100 s"
    assert b.allocated == pytest.approx(2000 * 20 / 100, rel=0.05)


def test_a_queue_below_its_share_and_those_whose_pods_are_evicted_for_it():
    full = [comes(0, f"b{i}", "b", None) for i in range(4)]
    (card,) = play([cpus("a", 2), cpus("b")], *full, comes(50, "a0", "a"), comes(50, "a1", "a"))
    a, b = card.queues
    assert (a.preempted, b.preempted) == (0, 2)
    assert b.share == pytest.approx(3000, rel=0.05), "4 for half of the time, then 2"
    assert b.below_share == 0
    assert a.below_share == 0, "it takes back its share at once"
    protected = queue("b", resources={"cpu": {}}, reclaimMinRuntime="1h")
    (card,) = play([cpus("a", 2), protected], *full, comes(50, "a0", "a"), comes(50, "a1", "a"))
    assert card.queues[0].below_share == pytest.approx(0.5, abs=0.02)
    assert card.queues[0].waiting.longest == 50


def test_pods_that_never_get_a_node_wait_until_the_end():
    (card,) = play([cpus("a", limit="0")], comes(40, "a0", "a"))
    (a,) = card.queues
    assert (a.arrived, a.placed, a.waiting.longest) == (1, 0, 60)


def test_a_candidate_may_have_other_queues():
    events = [comes(0, f"a{i}", "a", 20) for i in range(4)]
    wide = [cpus("a", limit="4"), make_policy("p", strategy={"type": "MostAllocated"})]
    cards = play(
        [cpus("a", limit="1")], *events, candidates=[ReplayCandidate("as it is"), ReplayCandidate("wide", wide)]
    )
    assert [card.queues[0].waiting.longest for card in cards] == [60, 0]
    assert [row[:3] for row in queue_rows(cards)] == [
        ["queue", "policy", "pods placed"],
        ["a", "as it is", "4 of 4"],
        ["a", "wide", "4 of 4"],
    ]
    with pytest.raises(ReplayError, match=r"SchedulingQueue a: spec\.parent: queue 'gone' does not exist"):
        play([cpus("a")], *events, candidates=[ReplayCandidate("bad", [queue("a", parent="gone")])])


@pytest.mark.parametrize(("state", "started"), [("Open", 2), ("Hold", 2), ("Drain", 3)])
def test_a_queue_in_state_drain_loses_its_pods_except_those_that_a_budget_keeps(state, started):
    runs = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    placed = [pod(name, "n", labels={QUEUE_LABEL: "a", "app": name}, status=runs) for name in ("kept", "goes")]
    spec = {"selector": {"matchLabels": {"app": "kept"}}}
    budget = item("PodDisruptionBudget", {"metadata": {"name": "b", "namespace": "default"}, "spec": spec, "status": {"disruptionsAllowed": 0}}, "policy/v1")  # fmt: skip
    full = [comes(10, f"b{i}", "b") for i in range(4)]
    (card,) = play([queue("a", state=state), queue("b"), budget, *placed], *full)
    (b,) = card.queues
    assert (b.placed, card.preemptions) == (started, 0)


def test_tables_and_plots_have_queues_only_if_pods_are_in_some():
    (card,) = play([cpus("a")], comes(0, "plain", "", 20))
    assert card.queues == []
    assert "queues" not in card.as_dict()
    assert not any("queue" in name or "fairness" in name for name in plots([card]))
    assert markdown([card]).count("| --- |") == 1
    (card,) = play([cpus("a")], comes(0, "one", "a", 20))
    assert card.as_dict()["queues"][0]["belowShare"] == 0
    drawn = plots([card])
    assert {name for name in drawn if "queue" in name} == {
        f"queues-1-{key}.svg" for key in ("allocation", "share", "waiting")
    }
    assert "fairness.svg" in drawn
    assert "cpu that queues have under built-in" in drawn["queues-1-allocation.svg"]
    assert "| a | built-in | 1 of 1 |" in markdown([card])


def test_the_resource_is_one_that_queues_name():
    gpu = {"example.com/gpu": {"limit": "1"}}
    (card,) = play([queue("a", resources=gpu)], comes(0, "one", "a", 20))
    assert card.queues[0].resource == "example.com/gpu"


def test_room_is_taken_back_when_pods_have_run_for_long_enough():
    """No event says that. Pods that start later are protected for longer."""
    protected = queue("b", resources={"cpu": {}}, reclaimMinRuntime="30s")
    full = [comes(0, "b0", "b"), *[comes(20, f"b{i}", "b") for i in range(1, 4)]]
    (card,) = play([cpus("a", 2), protected], *full, comes(25, "a0", "a"), comes(25, "a1", "a"))
    a, b = card.queues
    assert b.preempted == 2
    assert a.waiting.curve[0][0] == 5, "b0 is protected until 30"
    assert a.waiting.longest == 25, "the others until 50"


def test_the_longest_time_of_a_queue_and_those_above_counts():
    tree = [
        queue("top", resources={"cpu": {}}, reclaimMinRuntime="40s"),
        queue("b", parent="top", reclaimMinRuntime="10s"),
    ]
    full = [comes(0, f"b{i}", "b") for i in range(4)]
    (card,) = play([cpus("a", 1), *tree], *full, comes(5, "a0", "a"))
    assert card.queues[0].waiting.longest == 35


def test_a_pod_that_has_run_for_too_long_goes_for_another_of_its_queue():
    limited = queue("b", resources={"cpu": {"limit": "4"}}, maxRuntime="30s")
    (card,) = play([limited], *[comes(0, f"b{i}", "b") for i in range(4)], comes(10, "next", "b"), end=35.0)
    (b,) = card.queues
    assert (b.preempted, b.placed) == (4, 5), "each of the four goes for the one before it, which comes again"
    assert b.waiting.longest == pytest.approx(20, abs=0.1)


def test_fairness_is_the_part_of_fair_shares_that_queues_have():
    full = [comes(0, f"b{i}", "b", None) for i in range(4)]
    protected = queue("b", resources={"cpu": {}}, reclaimMinRuntime="1h")
    (card,) = play([cpus("a", 2), protected], *full, comes(50, "a0", "a"), comes(50, "a1", "a"))
    fairness = {each.time: each.fairness for each in card.queue_samples}
    assert (fairness[25.0], fairness[75.0]) == (1.0, 0.5), "b has all of its 2, a nothing of its 2"


def reservation(until, **spec):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "held", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"namespace": "other", "slots": [{"node": "n", "requests": {"cpu": "3"}}], "duration": until, **spec},
    }


def test_room_that_is_held_for_others_is_not_used_before_its_time_is_over():
    events = [comes(1, f"a{i}", "a", None) for i in range(2)]
    (card,) = play([cpus("a"), reservation("40s")], *events)
    assert card.queues[0].waiting.longest == 39
    (card,) = play([cpus("a"), reservation("40s", namespace="default")], *events)
    assert card.queues[0].waiting.longest == 0
