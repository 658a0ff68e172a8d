"""RebalancePolicies: what is wrong with one is named with its field, by the parser as by the CRD."""

from __future__ import annotations

from datetime import datetime

import pytest
import yaml

from podwright.api import crd
from podwright.api.rebalance_policy import parse_rebalance_policy
from podwright.core.objects.errors import InvalidObjectError
from podwright.sandbox.schemas import Schema
from support.control_plane.operator_process import CHECKOUT
from support.rebalance.kit import policy

SCHEMA = Schema(crd.crd("RebalancePolicy")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
EMPTY = {"type": "EmptyNodes"}


@pytest.mark.parametrize(
    ("spec", "field", "by_schema"),
    [
        pytest.param({"goals": []}, "spec.goals", True, id="no goal"),
        pytest.param({"goals": [{"type": "Everything"}]}, "spec.goals[0].type", True, id="an unknown goal"),
        pytest.param({"goals": [EMPTY, {**EMPTY, "weight": 2}]}, "spec.goals", False, id="a goal twice"),
        pytest.param({"goals": [{**EMPTY, "weight": 0}]}, "spec.goals[0].weight", True, id="a goal worth nothing"),
        pytest.param({"goals": [{"type": "MakeRoom"}]}, "spec.goals[0].requests", False, id="room of no size"),
        pytest.param({"goals": [{"type": "RepairViolations", "requests": {"cpu": 1}}]}, "spec.goals[0].requests", False, id="a size of another goal"),
        pytest.param({"goals": [{"type": "RepairViolations", "count": 1}]}, "spec.goals[0].count", False, id="a number of another goal"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": "0"}}]}, "spec.goals[0].requests.cpu", False, id="room for nothing"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"a b": 1}}]}, "spec.goals[0].requests", False, id="no resource"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": 1}, "gangs": ["*"]}]}, "spec.goals[0].requests", False, id="room of two kinds"),
        pytest.param({"goals": [{**EMPTY, "topologyKey": "rack"}]}, "spec.goals[0].topologyKey", False, id="domains of another goal"),
        pytest.param({"goals": [{"type": "MakeRoom", "gangs": ["*"], "topologyKey": "rack"}]}, "spec.goals[0].topologyKey", False, id="domains of gangs"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": 1}, "topologyKey": "a b"}]}, "spec.goals[0].topologyKey", False, id="a label that is none"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": 1}, "domains": 4}]}, "spec.goals[0].domains", False, id="domains of no label"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": 1}, "topologyKey": "rack", "domains": 0}]}, "spec.goals[0].domains", True, id="no domains"),
        pytest.param({"goals": [{**EMPTY, "gangs": ["*"]}]}, "spec.goals[0].gangs", False, id="gangs of another goal"),
        pytest.param({"goals": [{"type": "MakeRoom", "gangs": ["train"]}]}, "spec.goals[0].gangs", True, id="a gang without a namespace"),
        pytest.param({"goals": [{"type": "MakeRoom", "gangs": ["a/b", "a/b"]}]}, "spec.goals[0].gangs", False, id="a gang twice"),
        pytest.param({"maxMovesAtOncePerOwner": 0}, "spec.maxMovesAtOncePerOwner", True, id="no move of an owner"),
        pytest.param({"maxMovesAtOncePerNode": 101}, "spec.maxMovesAtOncePerNode", True, id="too many moves of a node"),
        pytest.param({"windows": [{"start": "24:00", "duration": "1h"}]}, "spec.windows[0].start", True, id="a window at no time"),
        pytest.param({"windows": [{"start": "22:00", "duration": "25h"}]}, "spec.windows[0].duration", False, id="a window of more than a day"),
        pytest.param({"windows": [{"start": "22:00", "duration": "1h", "days": ["Sunday"]}]}, "spec.windows[0].days", True, id="a window on no day"),
        pytest.param({"maxMoves": 0}, "spec.maxMoves", True, id="no moves at all"),
        pytest.param({"maxMovesAtOnce": 0}, "spec.maxMovesAtOnce", True, id="no move at a time"),
        pytest.param({"mode": "Always"}, "spec.mode", True, id="an unknown mode"),
        pytest.param({"minGain": "much"}, "spec.minGain", True, id="a gain that is no quantity"),
        pytest.param({"minGain": "2"}, "spec.minGain", False, id="more than an emptied node is worth for each move"),
        pytest.param({"goals": [EMPTY, {"type": "MakeRoom", "requests": {"cpu": 1}, "count": 3, "weight": 2}], "minGain": "7500m"}, "spec.minGain", False, id="more than two goals are worth for each move"),
        pytest.param({"cooldown": "a while"}, "spec.cooldown", True, id="a cooldown that is no duration"),
        pytest.param({"holdFor": "0"}, "spec.holdFor", False, id="places that are not held"),
        pytest.param({"holdFor": "25h"}, "spec.holdFor", False, id="places that are held too long"),
        pytest.param({"interval": "1ms"}, "spec.interval", False, id="plans without a pause"),
        pytest.param({"interval": "soon", "holdFor": "0"}, "spec.interval", True, id="an interval that is no duration"),
        pytest.param({"goals": [{"type": "MakeRoom", "requests": {"cpu": "9E"}}]}, "spec.goals[0].requests.cpu", False, id="room for more than there is"),
        pytest.param({"owners": []}, "spec.owners", True, id="no owners"),
        pytest.param({"owners": ["DaemonSet"]}, "spec.owners", False, id="owners whose pods belong to nodes"),
        pytest.param({"match": {"namespaces": ["kube-system"]}}, "spec.match.namespaces", False, id="the system's pods"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"a b": "c"}}}}, "spec.match.podSelector", False, id="a selector"),
        pytest.param({"moves": 3}, "spec.moves", False, id="an unknown field"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_field(spec, field, by_schema):
    raw = policy(**spec)
    with pytest.raises(InvalidObjectError) as caught:
        parse_rebalance_policy(raw)
    assert "RebalancePolicy tidy" in str(caught.value)
    assert field in str(caught.value)
    assert bool(SCHEMA.problems(raw)) >= by_schema


@pytest.mark.parametrize(
    "goals",
    [
        [EMPTY, {"type": "MakeRoom", "requests": {"cpu": 1}, "count": 3, "weight": 2}],
        [EMPTY, {"type": "MakeRoom", "gangs": ["*"]}],
        [EMPTY, {"type": "RepairViolations"}],
    ],
    ids=["as much", "a gang has many pods", "a move may repair many pods"],
)
def test_a_gain_that_a_move_may_have_can_be_asked_for(goals):
    assert parse_rebalance_policy(policy(goals=goals, minGain="7")).min_gain == 7


def test_a_policy_needs_a_name():
    raw = policy()
    del raw["metadata"]["name"]
    with pytest.raises(InvalidObjectError):
        parse_rebalance_policy(raw)


def test_the_example_is_valid():
    raw = yaml.safe_load((CHECKOUT / "manifests" / "examples" / "rebalance" / "tidy.yaml").read_text())
    assert SCHEMA.problems(raw) == []
    assert parse_rebalance_policy(raw).min_gain == 0.1


@pytest.mark.parametrize(
    ("when", "is_open"),
    [
        ("2026-11-27T21:59:59", False),
        ("2026-11-27T22:00:00", True),
        ("2026-11-28T03:59:59", True),
        ("2026-11-28T04:00:00", False),
        ("2026-11-28T23:00:00", False),
        ("2026-11-30T12:30:00", True),
    ],
)
def test_windows_open_at_their_time_of_their_days(when, is_open):
    """The 27th of November 2026 is a Friday."""
    night = {"start": "22:00", "duration": "6h", "days": ["Fri"]}
    found = parse_rebalance_policy(policy(windows=[night, {"start": "12:00", "duration": "1h", "days": ["Mon"]}]))
    assert found.is_open(datetime.fromisoformat(f"{when}+00:00").timestamp()) is is_open


def test_defaults_are_careful():
    raw = policy()
    del raw["spec"]["minGain"]
    found = parse_rebalance_policy(raw)
    assert (found.mode, found.at_once, found.max_moves, found.cooldown) == ("Plan", 1, 100, 3600)
    assert found.min_gain == 0.05
