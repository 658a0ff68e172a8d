"""Replays with a RebalancePolicy: what moves when, and what is gained."""

from __future__ import annotations

import pytest
from tests.unit.simulator.replay.test_run import comes

from podwright.simulator.replay.run import ReplayCandidate, ReplayError, ReplayOptions, replay
from podwright.simulator.replay.stream import ReplayStream, sorted_events
from podwright.simulator.replay.tables import rows
from support.rebalance.kit import gang, node, policy
from support.simulator.kit import pod

DAY = 86_400.0


def tidy(**spec):
    return ReplayCandidate("tidy", [policy(**{"interval": "10m", **spec})])


def play(candidate, *events, initial=(), end=DAY):
    return replay(
        ReplayStream(initial=[*initial], events=sorted_events(events), start=0.0, end=end), [candidate], ReplayOptions()
    )[0]


def fragmented():
    """n0 keeps two pods, of which each other node keeps one, after those that filled them have left."""
    nodes = [node(f"n{i}") for i in range(3)]
    return [*nodes, *(pod(f"p{i}", f"n{i}", owner="web") for i in range(3)), pod("q", "n0", owner="web")]


def test_nodes_are_emptied_at_the_interval_and_stay_empty():
    card = play(tidy(), initial=fragmented())
    (figures,) = card.rebalancing
    assert (figures.plans, figures.moves, figures.gain, figures.astray) == (1, 2, 2, 0)
    assert card.nodes_in_use == pytest.approx((3 * 3600 + (DAY - 3600)) / DAY, abs=0.02)
    table = {row[0]: row[1] for row in rows([card])}
    assert (table["pods moved by rebalancing"], table["gain of rebalancing"]) == ("2", "2")


def test_pods_that_came_within_the_stream_move_too():
    events = [comes(60.0, f"c{i}", cpu="1", owner="web") for i in range(3)]
    card = play(tidy(), *events, initial=[node(f"n{i}") for i in range(3)])
    assert card.rebalancing[0].moves == 2, "they were spread over three nodes"


def test_without_a_policy_nothing_is_said_of_rebalancing():
    card = play(ReplayCandidate("none"), initial=fragmented())
    assert "rebalancing" not in card.as_dict()
    assert "pods moved by rebalancing" not in [row[0] for row in rows([card])]


def test_moves_are_bounded_within_each_hour():
    card = play(tidy(maxMoves=1, cooldown="0s"), initial=fragmented(), end=4000.0)
    assert card.rebalancing[0].moves == 1
    card = play(tidy(maxMoves=1, cooldown="0s"), initial=fragmented(), end=9000.0)
    assert card.rebalancing[0].moves == 2


def test_nothing_moves_for_a_goal_that_is_out_of_reach():
    card = play(tidy(goals=[{"type": "EmptyNodes", "count": 9}]), initial=fragmented())
    assert (card.rebalancing[0].plans, card.rebalancing[0].moves) == (0, 0)


def test_a_gang_that_waits_starts_after_the_moves():
    group, *members = gang("train", 2, "3")
    initial = [
        *(node(f"n{i}") for i in range(3)),
        *(pod(f"p{n}-{i}", f"n{n}", owner="web") for n in range(3) for i in range(2)),
        group,
    ]
    arrivals = [comes(10.0, raw["metadata"]["name"], labels=raw["metadata"]["labels"], cpu="3") for raw in members]
    goals = [{"type": "MakeRoom", "gangs": ["*"]}]
    without = play(ReplayCandidate("none"), *arrivals, initial=initial, end=9000.0)
    card = play(tidy(goals=goals), *arrivals, initial=initial, end=9000.0)
    assert (without.placed, card.placed) == (0, 2)
    assert (card.rebalancing[0].moves, card.rebalancing[0].gain) == (2, 2)


def test_a_policy_that_is_invalid_is_named():
    with pytest.raises(ReplayError, match=r"tidy: RebalancePolicy tidy: spec\.maxMoves"):
        play(tidy(maxMoves=0), initial=fragmented())
