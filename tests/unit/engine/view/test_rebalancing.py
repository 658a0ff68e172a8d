"""The plans of RebalancePolicies as the page gets them: what each viewer may see of them, and bounded."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from podwright.core.rebalance.rules import HeldBack, Move, RebalancePlan, Step
from podwright.engine.process.steps import at_once
from podwright.engine.rebalance import moves
from podwright.engine.rebalance.recent import RecentMoves
from podwright.engine.view import rebalancing as view
from podwright.engine.view.rebalance_picture import COLORS
from podwright.engine.view.rebalancing import about_plan, plan_picture, plan_rows
from support.engine.kit import Rig, deciding, settle
from support.page.plans import plans
from support.page.teams import GPU
from support.rebalance.fragmented import Fragmented
from support.rebalance.kit import rules

STAYS, LEAVES, COMES, _, GANG = COLORS[:5]


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(moves, "POLL_SECONDS", 0.0)


async def planned(**named: str) -> Rig:
    rig = Rig()
    plans(rig, **named)
    await settle()
    return rig


def about(rig, sees="", name="tidy"):
    """`sees`: the namespace whose pods the viewer may see, "" for all."""
    return at_once(about_plan(rig.engine.rebalancing, name, lambda namespace: sees in ("", namespace)))


def cells(svg):
    """By "before" and "after", and by node: the colours of its bar with their heights."""
    found = {"before": {}, "after": {}}
    when = ""
    for each in ElementTree.fromstring(svg):
        if each.tag.endswith("text") and each.text in found:
            when = each.text
        if each.tag.endswith("}g"):
            found[when][each[0].text] = {bar.get("fill"): float(bar.get("height")) for bar in each[2:]}
    return found


def drawn(rig, resource=GPU):
    return plan_picture(rig.engine.rebalancing, "tidy", resource)


async def test_a_plan_has_its_moves_with_reasons_and_what_holds_others_back():
    rig = await planned()
    (row,) = at_once(plan_rows(rig.engine.rebalancing)).rows
    found = about(rig)
    assert (row.name, row.state, row.moved, row.ended) == ("tidy", "Plan", 0, False)
    assert row.moves == found["moves"] == sum(step["count"] for step in found["steps"]) > 0
    assert row.gain == found["gain"] == sum(step["gain"] for step in found["steps"])
    step = found["steps"][0]
    assert step["why"].startswith("empties node node-")
    assert all(source in step["why"] and not moved for _, _, source, _, moved in step["moves"])
    assert found["resources"] == [GPU, "cpu"]
    assert found["goals"] == [["EmptyNodes", 1]]
    assert found["exact"] == ""
    assert len(found["hash"]) == 16
    assert found["heldBack"] == [*map(str, rig.engine.rebalancing.known["tidy"].progress.plan.held_back)]


async def test_pods_are_named_for_those_who_may_see_them():
    rig = await planned()
    everything, team, nothing = about(rig), about(rig, "team"), about(rig, "nobody's")
    namespaces = {move[0] for step in team["steps"] for move in step["moves"]}
    assert namespaces == {"team"}
    assert everything["unlisted"] == 0 < team["unlisted"] < nothing["unlisted"] == nothing["moves"]
    assert nothing["steps"] == []
    for each in (team, nothing):
        assert {"ended", "hash", "exact", "heldBack"}.isdisjoint(each), "their texts may name any pod"


async def test_the_gang_that_gets_room_is_named_for_those_who_may_see_it():
    rig = await planned()
    move = Move("u", "team/web", "ReplicaSet/web", "o", "node-01", "node-02", {})
    step = Step([move], 1, gang="api:secret/train")
    rig.engine.rebalancing.known["tidy"].progress.plan = RebalancePlan("tidy", [step])
    assert about(rig)["steps"][0]["why"] == "makes room for pod group secret/train"
    assert about(rig, "team")["steps"][0]["why"] == "makes room for a pod group"


async def test_an_unknown_policy_has_nothing_and_one_before_its_first_plan_no_picture():
    rig = await planned()
    assert about(rig, name="other") == {}
    rig.engine.rebalancing.set(rules(name="new"), RecentMoves())
    assert "steps" not in about(rig, name="new")
    assert at_once(plan_picture(rig.engine.rebalancing, "new", GPU)) == ""
    assert at_once(plan_rows(rig.engine.rebalancing)).rows[0].time is None


async def test_the_racks_are_drawn_before_and_after():
    rig = await planned()
    svg = at_once(drawn(rig))
    for rack in range(4):
        assert svg.count(f">rack-{rack}<") == 2
    found, plan = cells(svg), rig.engine.rebalancing.known["tidy"].progress.plan
    assert len(found["before"]) == len(found["after"]) == 48
    for step in plan.steps:
        for node in step.empties:
            assert LEAVES in found["before"][node]
            assert found["after"][node].keys() <= {STAYS}
    for move in plan.moves:
        assert COMES in found["after"][move.target]
    total = {when: sum(sum(bar.values()) for bar in bars.values()) for when, bars in found.items()}
    assert total["before"] == pytest.approx(total["after"])


async def test_while_pods_move_the_picture_stays_that_of_the_plan():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        before = at_once(plan_picture(it.engine.rebalancing, "tidy", "cpu"))
        await it.moves("c", "c2")
        assert about(it.rig)["steps"][0]["moves"] == [("default", "c", "n1", "n0", "moved")]
        during = at_once(plan_picture(it.engine.rebalancing, "tidy", "cpu"))
        await it.moves("d", "d2")
        assert at_once(plan_rows(it.engine.rebalancing)).rows[0].moved == 2
        after = at_once(plan_picture(it.engine.rebalancing, "tidy", "cpu"))
    assert before == during == after
    assert cells(after) == {
        "before": {"n0": {STAYS: 18.0}, "n1": {LEAVES: 9.0}, "n2": {LEAVES: 9.0}},
        "after": {"n0": {STAYS: 18.0, COMES: 18.0}, "n1": {}, "n2": {}},
    }


async def test_a_gang_is_drawn_where_it_gets_room_before_and_after_it_starts():
    it = Fragmented(goals=[{"type": "MakeRoom", "gangs": ["*"]}])
    async with deciding(it.rig):
        members = it.gang("train", 1, "4")
        await it.later()
        before = at_once(plan_picture(it.engine.rebalancing, "tidy", "cpu"))
        assert cells(before)["after"]["n1"] == {GANG: 36.0}
        await it.moves("c", "c2")
        it.bound(members[0])
        assert at_once(plan_picture(it.engine.rebalancing, "tidy", "cpu")) == before


async def test_hostile_plans_are_bounded_and_read_in_steps():
    rig = await planned()
    name = "x" * 250
    for number in range(view.MOST_NODES + 500):
        rig.node(f"{number}-{name[:240]}", labels={"rack": name[:63]})
    many = [
        Move(f"u{n}", f"team/{n}{name}", "ReplicaSet/a", "o", f"node-{n % 20:02}", f"node-{20 + n % 20:02}", {GPU: 1})
        for n in range(10_000)
    ]
    steps = [*(Step([move], 1, empties=[name * 5]) for move in many[:5000]), Step(many[5000:], 1)]
    held = [HeldBack("node", number, name * 10) for number in range(500)]
    progress = rig.engine.rebalancing.known["tidy"].progress
    progress.plan, progress.ended = RebalancePlan("tidy", steps, held, name * 10), name * 10
    found = about(rig)
    assert sum(len(step["moves"]) for step in found["steps"]) == view.MOST_MOVES
    assert found["unlisted"] == 10_000 - view.MOST_MOVES
    assert len(found["heldBack"]) == view.MOST_REASONS
    texts = [found["ended"], found["exact"], *found["heldBack"], *(step["why"] for step in found["steps"])]
    assert max(map(len, texts)) == view.LONGEST
    assert len(str(found)) < 300_000
    drawing, count = drawn(rig), 0
    try:
        while True:
            next(drawing)
            count += 1
    except StopIteration as end:
        svg = end.value
    assert count > 200
    assert len(cells(svg)["before"]) == view.MOST_NODES
    assert {f"node-{number:02}" for number in range(40)} <= cells(svg)["after"].keys(), "what changes goes first"
    assert "548 more nodes are left out" in svg
    assert len(svg) < 1_200_000


async def test_many_policies_are_bounded_by_name():
    rig = await planned()
    rebalancing = rig.engine.rebalancing
    for number in range(view.MOST_POLICIES + 10):
        rebalancing.set(rules(name=f"a{number:03}"), RecentMoves())
    found = at_once(plan_rows(rebalancing))
    assert (len(found.rows), found.count) == (view.MOST_POLICIES, view.MOST_POLICIES + 11)
    assert found.rows[0].name == "a000"
