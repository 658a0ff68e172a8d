"""A replay's figures, each computed by hand, on streams of a few pods."""

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.replay.meter import Prices
from podwright.simulator.replay.plots import Plot, draw, plots
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, ReplayError, ReplayOptions, replay
from podwright.simulator.replay.stream import Arrival, NodeUpdate, PodLeaves, ReplayStream, sorted_events
from podwright.simulator.replay.tables import markdown, rows
from podwright.simulator.replay.waiting import waiting_times
from support.objects.builders import make_policy
from support.simulator.kit import node, pod


def stream(initial, *events, end):
    return ReplayStream(initial=initial, events=sorted_events(events), start=0.0, end=end)


def comes(time, name, runs_for=None, **more):
    leaves_at, gives_up_at = more.pop("leaves_at", None), more.pop("gives_up_at", None)
    return Arrival(time, parse_pod(pod(name, **more)), runs_for, leaves_at=leaves_at, gives_up_at=gives_up_at)


def play(played, *candidates, **options):
    cards = replay(played, candidates or [ReplayCandidate(BUILT_IN)], ReplayOptions(**options))
    return cards if candidates else cards[0]


def test_a_pod_waits_until_another_one_has_run():
    card = play(stream([node("a")], comes(0, "first", 100, cpu="3"), comes(40, "second", 100, cpu="2"), end=200))
    assert (card.arrived, card.placed, card.never_placed) == (2, 2, 0)
    assert card.waiting.longest == 60, "from 40 until the first one leaves at 100"
    assert card.waiting.mean == 30
    assert card.allocation["cpu"] == pytest.approx((3 * 100 + 2 * 100) / (4 * 200))
    assert card.peak_allocation["cpu"] == 0.75
    assert card.nodes_in_use == 1


def test_allocation_is_of_all_nodes_and_utilisation_of_those_in_use():
    card = play(stream([node("a"), node("b")], comes(0, "p", 50, cpu="2"), end=100))
    assert card.allocation["cpu"] == pytest.approx(2 * 50 / (8 * 100))
    assert card.utilisation["cpu"] == pytest.approx(0.5)
    assert (card.nodes, card.nodes_in_use, card.nodes_off, card.most_nodes_in_use) == (2, 0.5, 1.5, 1)


def test_nodes_cost_what_their_label_says_while_they_are_in_use():
    prices = Prices(2.0, {("kubernetes.io/hostname", "a"): 10.0})
    card = play(stream([node("a"), node("b", cpu="1")], comes(0, "p", 1800, cpu="3"), end=3600), prices=prices)
    assert card.cost == pytest.approx(5.0)
    assert card.cost_of_all == pytest.approx(12.0)


def test_a_pod_without_a_node_gives_up_and_its_wait_counts():
    card = play(
        stream([node("a")], comes(10, "large", 5, cpu="9", gives_up_at=50), comes(20, "huge", 5, cpu="10"), end=100)
    )
    assert (card.placed, card.never_placed) == (0, 2)
    assert card.waiting.longest == 80
    assert card.waiting.mean == 60
    assert sum(card.unplaced.values()) == 2
    assert all("Insufficient cpu" in reason for reason in card.unplaced)


def test_a_service_leaves_at_its_time_whether_it_ran_or_not():
    card = play(stream([node("a")], comes(0, "s", leaves_at=60, cpu="4"), comes(0, "t", leaves_at=50, cpu="4"), comes(55, "u", 5, cpu="1"), end=100))  # fmt: skip
    assert card.placed == 2
    assert card.never_placed == 1


def test_a_preempted_pod_is_created_anew_and_runs_its_whole_time():
    card = play(stream([node("a")], comes(0, "low", 50, cpu="4"), comes(20, "high", 30, cpu="4", priority=5), end=200))
    assert card.preemptions == 1
    assert (card.placed, card.arrived) == (2, 2)
    assert card.allocation["cpu"] == pytest.approx((20 + 30 + 50) / 200)


def test_pods_of_the_start_count_and_leave():
    played = stream([node("a"), pod("there", on="a", cpu="4")], PodLeaves(30, "default/there"), comes(0, "p", 10, cpu="1"), end=100)  # fmt: skip
    card = play(played)
    assert card.waiting.longest == 30
    assert card.allocation["cpu"] == pytest.approx((4 * 30 + 10) / 400)


def test_daemons_keep_no_node_in_use():
    agent = pod("agent", on="a", cpu="1", owner="agent", kind="DaemonSet")
    card = play(stream([node("a"), agent], end=10))
    assert (card.nodes_in_use, card.nodes_off) == (0, 1)


def test_nodes_come_change_and_go_with_their_pods():
    played = stream(
        [node("a")],
        comes(0, "p", 100, cpu="6"),
        NodeUpdate(10, "b", node("b", cpu="8")),
        NodeUpdate(50, "b", None),
        NodeUpdate(60, "a", node("a", cpu="16")),
        end=200,
    )
    card = play(played)
    assert card.placed == 1
    assert card.waiting.longest == 10
    assert card.nodes == pytest.approx((10 * 1 + 40 * 2 + 150 * 1) / 200)
    offered = 10 * 4 + 40 * 12 + 10 * 4 + 140 * 16
    assert card.allocation["cpu"] == pytest.approx((6 * 40 + 6 * 100) / offered)


def test_pods_wait_for_the_first_node():
    card = play(stream([], comes(0, "p", 10), NodeUpdate(50, "a", node("a")), end=100))
    assert (card.placed, card.waiting.longest) == (1, 50)


def test_fragmentation_is_what_is_free_but_useless_to_typical_pods():
    played = stream([node("a"), node("b")], comes(0, "x", cpu="3"), comes(0, "y", cpu="2"), end=100)
    card = play(played, samples=10)
    # Free: 1 on one node, 2 on the other. A pod of 3 can use nothing, one of 2 can use 2 of 3.
    assert card.samples[5].fragmentation == pytest.approx(0.5 * 1 + 0.5 * (1 / 3))
    assert card.resource == "cpu"


def test_spread_is_how_far_apart_the_nodes_are():
    card = play(stream([node("a"), node("b")], comes(0, "x", cpu="4"), end=100), samples=10)
    assert card.samples[5].spread == pytest.approx(0.5)


def test_policies_are_compared_on_the_same_stream():
    nodes = [node(name) for name in "abcd"]
    pods = [comes(i, f"p{i}", 1000, cpu="1", spec={"schedulerName": "default-scheduler"}) for i in range(4)]
    spread = ReplayCandidate("spread", [make_policy("s", strategy={"type": "LeastAllocated"})])
    pack = ReplayCandidate("pack", [make_policy("p", strategy={"type": "MostAllocated"})])
    first, second = play(stream(nodes, *pods, end=1000), spread, pack)
    assert (first.most_nodes_in_use, second.most_nodes_in_use) == (4, 1)
    assert (first.policy, second.policy) == ("spread", "pack")
    again, _ = play(stream(nodes, *pods, end=1000), spread, pack)
    assert {**again.as_dict(), "cpuSeconds": 0} == {**first.as_dict(), "cpuSeconds": 0}


def test_a_policy_that_is_not_accepted_is_an_error_before_anything_runs():
    bad = ReplayCandidate("bad", [make_policy("b", strategy={"type": "Nope"})])
    shown = []
    with pytest.raises(ReplayError, match=r"bad: policy b: spec.strategy.type"):
        replay(stream([node("a")], end=1), [ReplayCandidate(BUILT_IN), bad], progress=lambda *seen: shown.append(seen))
    assert shown == []


def test_progress_is_reported_to_the_end():
    shown = []
    replay(
        stream([node("a")], comes(0, "p", 1), end=2), [ReplayCandidate("x")], progress=lambda *seen: shown.append(seen)
    )
    assert shown == [("x", 0, 1), ("x", 1, 1)]


def test_waiting_times():
    found = waiting_times([0.0] * 98 + [61.0, 100.0])
    assert (found.median, found.p95, found.p99, found.longest, found.long) == (0.0, 0.0, 100.0, 100.0, 2)
    assert found.curve[-1] == (100.0, 1.0)
    assert waiting_times([]).mean == 0.0


def test_tables_and_plots_have_a_column_and_a_line_for_each_policy():
    cards = play(stream([node("a")], comes(0, "p", 5), end=10), ReplayCandidate("<one>"), ReplayCandidate("two"))
    table = rows(cards)
    assert table[0] == ["", "<one>", "two"]
    assert {len(row) for row in table} == {3}
    assert markdown(cards).startswith("|  | <one> | two |\n| --- | ---: | ---: |\n")
    drawn = plots(cards)
    assert len(drawn) == 7
    for svg in drawn.values():
        assert svg.count("<polyline") == 2
        assert "&lt;one&gt;" in svg
        assert "<one>" not in svg


def test_a_plot_without_points_is_drawn():
    assert "</svg>" in draw(Plot("t", "x", {"a": []}, logarithmic=True))


def test_a_policy_in_shadow_mode_is_tried_as_if_it_enforced():
    shadow = make_policy(
        "pack", mode="Shadow", rules={"filters": [{"name": "no", "expression": "false", "message": "no"}]}
    )
    card = play(stream([node("a")], comes(0, "p"), end=10), ReplayCandidate("shadow", [shadow]))[0]
    assert (card.placed, card.never_placed) == (0, 1)
