"""The lines about decisions: none below --v=3, then one for each decision, and more details above."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

import podwright
from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.records import decision_log
from podwright.engine.records.log_fields import V3, V4, V5, fields_of
from support.engine.kit import Rig, custom_policy, deciding
from support.logs.lines import lines_of
from support.objects.builders import in_group, make_pod_group

SOURCES = sorted(
    path
    for path in Path(podwright.__file__).parent.rglob("*.py")
    if not {"testing", "sandbox", "demo"} & set(path.parts)
)


class Raises(Plugin, FilterPlugin):
    name = "Raises"

    def filter(self, _state, pod, _node):
        raise ValueError("broken")


@pytest.fixture
def written(caplog):
    """Decides about pods at a level, and returns the records of the decisions."""

    async def write(rig, level):
        caplog.set_level(level, logger=decision_log.log.name)
        caplog.clear()
        async with deciding(rig):
            pass
        return [record for record in caplog.records if record.name == decision_log.log.name]

    return write


def rig_with_nodes(cpus):
    rig = Rig()
    for name, cpu in cpus.items():
        rig.node(name, allocatable={"cpu": cpu})
    return rig


async def test_below_v_3_nothing_is_made_for_a_line(written, monkeypatch):
    """The cost of a decision is one question."""
    asked, made = [], []
    monkeypatch.setattr(decision_log, "enabled", lambda: asked.append(1) and False)
    monkeypatch.setattr(decision_log, "log_decision", lambda *_: made.append(1))
    rig = rig_with_nodes({"a": "4"})
    for number in range(5):
        rig.pod(f"p{number}", requests={"cpu": "100m"})
    rig.pod("big", requests={"cpu": "100"})
    assert await written(rig, logging.INFO - 2) == []
    assert (len(asked), len(made)) == (6, 0)


async def test_nothing_is_enabled_below_v_3(caplog):
    caplog.set_level(V3 + 1)
    assert not decision_log.enabled()
    caplog.set_level(V3)
    assert decision_log.enabled()


async def test_from_v_3_each_decision_is_one_line(written):
    rig = rig_with_nodes({"a": "4", "b": "1"})
    rig.pod("web", requests={"cpu": "2"})
    rig.pod("big", requests={"cpu": "100"})
    placed, rejected = await written(rig, V3)
    assert lines_of([placed, rejected]) == [
        'Selected node for pod pod="default/web" node="a" policy="built-in-default@0" ms=0.0 evaluatedNodes=2 feasibleNodes=1',
        'Unable to schedule pod; no fit; waiting pod="default/big" policy="built-in-default@0" ms=0.0 evaluatedNodes=2 feasibleNodes=0',
    ]
    assert {placed.levelno, rejected.levelno} == {V3}


async def test_from_v_4_the_reasons_of_each_plugin_follow(written):
    rig = rig_with_nodes({"a": "4", "b": "1"})
    rig.node("c", unschedulable=True)
    rig.pod("big", requests={"cpu": "100"})
    _, *details = await written(rig, V4)
    assert {record.levelno for record in details} == {V4}
    text = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    assert fields_of(details[0])["reason"].startswith(text)
    assert lines_of(details[1:]) == [
        'Plugin rejected nodes pod="default/big" plugin="NodeUnschedulable" reasons=["1 node(s) were unschedulable"]',
        'Plugin rejected nodes pod="default/big" plugin="NodeResourcesFit" reasons=["2 Insufficient cpu"]',
    ]


async def test_from_v_5_the_scores_of_the_chosen_node_follow(written):
    rig = rig_with_nodes({"a": "4", "b": "4", "c": "1"})
    rig.pod("web", requests={"cpu": "2"})
    line, details = await written(rig, V5)
    assert (line.levelno, details.levelno) == (V3, V5)
    found = fields_of(details)
    assert found["rejected"] == ["1 NodeResourcesFit"]
    assert {fields_of(line)["node"], found["runnerUp"]} == {"a", "b"}
    assert found["score"] == found["runnerUpScore"]


async def test_an_error_is_a_decision_too(written):
    rig = Rig({"Raises": Raises})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("filter", "Raises")).accepted
    rig.pod("web")
    (line,) = lines_of(await written(rig, V3))
    assert line.startswith('Error scheduling pod; retrying pod="default/web" policy="custom@1" ms=0.0 err="')
    assert "broken" in line


async def test_members_of_a_group_have_a_line_each_and_a_group_that_waits_has_one(written):
    rig = rig_with_nodes({"a": "4"})
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for group, cpu in (("small", "1"), ("large", "3")):
        rig.engine.objects(KIND).put(make_pod_group(group, min_count=2))
        for name in ("one", "two"):
            rig.pod(f"{group}-{name}", requests={"cpu": cpu}, spec=in_group(group))
    lines = lines_of(await written(rig, V3))
    assert [line.partition(" policy=")[0] for line in lines] == [
        'Selected node for pod pod="default/small-one" node="a" podGroup="default/small"',
        'Selected node for pod pod="default/small-two" node="a" podGroup="default/small"',
        'Unable to schedule pod group; waiting podGroup="default/large"',
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(Path(podwright.__file__).parent)))
def test_pods_and_nodes_are_fields_and_not_part_of_a_message(path):
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    logged = [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
    ]
    for call in logged:
        inside = {ast.unparse(part) for argument in call.args for part in ast.walk(argument)}
        assert not [part for part in inside if part.endswith((".key", ".node_name", ".pod", "node.name", "pod.name"))]
