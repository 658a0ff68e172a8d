"""`podwright rebalance`: plans as people and programs read them, and the switch that stops all."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from podwright.cli.commands import rebalance as command
from podwright.cli.commands.rebalance import stop_all
from podwright.cli.main import main
from podwright.core.framework.program import Answer
from podwright.core.rebalance.exact import NOTHING_BETTER
from podwright.engine.view.rebalance_picture import COLORS
from support.http.kit import api, says
from support.rebalance.kit import gang, node, old, policy

CLUSTER = [
    *(node(name) for name in ("n0", "n1", "n2")),
    old("a", "n0"),
    old("b", "n0"),
    old("c", "n1"),
    old("bare", "n2", owner=""),
]
TIDY = policy()
TABLE = """\
tidy: 1 move, 1 node emptied (plan b14f1c8b9e0c6bed)

empties node n1 (1 move)
  default/c  n1 -> n0

Held back
  1 node: has a pod that has no controller of the given kinds, which would create it again

The exact search found nothing better.
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "solve", lambda *_: Answer(proved=True))

    def invoke(*args, objects=(*CLUSTER, TIDY), code=0):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": objects}))
        result = CliRunner().invoke(main, ["rebalance", "plan", str(path), *args])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return invoke


def test_a_plan_says_what_moves_where_and_why(plan):
    assert plan() == TABLE


def test_programs_get_the_same(plan):
    (found,) = json.loads(plan("-o", "json"))["plans"]
    assert (found["policy"], found["gain"], found["moves"]) == ("tidy", 1, 1)
    assert found["hash"] in TABLE
    assert found["steps"][0]["moves"][0]["target"] == "n0"
    assert found["heldBack"][0]["what"] == "node"
    assert found["exact"] == NOTHING_BETTER


def test_the_picture_shows_the_nodes_of_each_rack_before_and_after(plan, tmp_path):
    file = tmp_path / "plan.svg"
    racked = [{**each, "metadata": {**each["metadata"], "labels": {"rack": "r1"}}} for each in CLUSTER[:2]]
    assert plan("--picture", str(file), "--rack", "rack", objects=(*racked, *CLUSTER[2:], TIDY)) == TABLE
    drawn = ElementTree.parse(file).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in drawn.iter(f"{space}text")]
    assert texts[0] == "tidy: cpu that pods request of each node"
    assert [each or "" for each in texts[5:]] == ["before", "", "r1", "after", "", "r1"], (
        "the node without the label first"
    )
    cells = [(cell[0].text, [bar.get("fill") for bar in cell[2:]]) for cell in drawn.iter(f"{space}g")]
    stays, leaves, comes = COLORS[:3]
    assert cells == [
        *[("n2", [stays]), ("n0", [stays]), ("n1", [leaves])],
        *[("n2", [stays]), ("n0", [stays, comes]), ("n1", [])],
    ]


def test_a_policy_of_a_file_is_planned_instead(plan, tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy("other", goals=[{"type": "RepairViolations"}])))
    assert plan("--policy", str(file)) == "other: no pod would move\n"


def test_room_that_is_made_is_named(plan, tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy(goals=[{"type": "MakeRoom", "requests": {"cpu": 4}}])))
    shown = plan("--policy", str(file))
    assert "tidy: 1 move, room for 1 pod" in shown
    assert "makes room on node n1 (1 move)" in shown


def test_room_in_domains_is_named(plan, tmp_path):
    file = tmp_path / "policy.json"
    goal = {"type": "MakeRoom", "requests": {"cpu": 4}, "topologyKey": "kubernetes.io/hostname", "domains": 3}
    file.write_text(json.dumps(policy(goals=[goal])))
    shown = plan("--policy", str(file))
    assert "tidy: 1 move, room in 1 domain" in shown
    assert "makes room in hostname n1 (1 move)" in shown
    assert "2 domains: asked for by goal MakeRoom, but no moves make room" in shown


def test_room_for_gangs_is_named(plan, tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy(goals=[{"type": "MakeRoom", "gangs": ["default/train"]}])))
    shown = plan("--policy", str(file), objects=[*CLUSTER, *gang("train", 1, "4")])
    assert "tidy: 1 move, room for 1 pod group" in shown
    assert "makes room for pod group default/train (1 move)" in shown


def test_without_a_policy_the_command_says_what_it_needs(plan):
    assert "name a file of one with --policy" in plan(objects=CLUSTER, code=1)


def test_an_invalid_policy_is_named_with_its_field(plan):
    assert "RebalancePolicy tidy: spec.maxMoves" in plan(objects=[*CLUSTER, policy(maxMoves=0)], code=1)


async def test_stop_sets_the_mode_of_all_policies():
    answers = [says(200, {"items": [policy("a"), policy("b")]}), says(200, {}), says(200, {})]
    async with api(*answers) as (http, script):
        assert await stop_all(http) == (["a", "b"], [])
    patches = [(each.method, each.path, each.body) for each in script.requests[1:]]
    path = "/apis/podwright.dev/v1alpha1/rebalancepolicies"
    assert patches == [("PATCH", f"{path}/{name}", {"spec": {"mode": "Stop"}}) for name in "ab"]


async def test_a_policy_that_cannot_be_stopped_keeps_no_other_from_it():
    listed = {"items": [policy(name) for name in ("gone", "refused", "last")]}
    gone, refused = (
        says(404, {"reason": "NotFound"}),
        says(422, {"reason": "Invalid", "message": "spec.owners is wrong"}),
    )
    async with api(says(200, listed), gone, refused, says(200, {})) as (http, _):
        names, problems = await stop_all(http)
    assert names == ["last"]
    assert len(problems) == 1
    assert problems[0].startswith("rebalancepolicy refused: ")
    assert "spec.owners is wrong" in problems[0]
