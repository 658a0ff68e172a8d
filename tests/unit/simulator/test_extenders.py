"""Policies that name extenders: tools accept them, decide without the extenders, and say so."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.simulator.library import Cluster, Policy, explain, simulate
from support.objects.builders import make_node, make_pod, make_policy

POLICY = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    **make_policy("extended", 1, extenders=["gpus"]),
}
NODE = {"apiVersion": "v1", "kind": "Node", **make_node("a")}
POD = {"apiVersion": "v1", "kind": "Pod", **make_pod("p", spec={"schedulerName": "podwright"})}
OBJECTS = [NODE, POLICY, POD]


def test_an_explanation_decides_without_the_extender_and_says_so():
    found = explain(Cluster.of(OBJECTS), "pod/p")
    assert "extenders are not asked: gpus" in found.notes
    assert found.policy.name == "extended"


def test_an_explanation_does_not_promise_what_the_extender_decides():
    failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "no licence"}
    waiting = {**POD, "status": {"conditions": [failed]}}
    found = explain(Cluster.of([NODE, POLICY, waiting]), "pod/p")
    assert [cause.text for cause in found.causes] == ["it fits on 1 node now (a), if extender gpus agrees"]
    assert "its last attempt failed: no licence" in found.notes


def test_the_explanation_of_a_placed_pod_says_that_the_extender_is_left_out():
    placed = {**POD, "spec": {**POD["spec"], "nodeName": "a"}}
    assert "extenders are not asked: gpus" in explain(Cluster.of([NODE, POLICY, placed]), "pod/p").notes


def test_an_explanation_without_extenders_does():
    plain = {**POLICY, "spec": {}}
    found = explain(Cluster.of([NODE, plain, POD]), "pod/p")
    assert [cause.text for cause in found.causes] == ["it fits on 1 node now (a): the next attempt places it"]


def test_a_simulation_decides_without_the_extender_and_says_so():
    result = simulate(Cluster.of(OBJECTS))
    assert [each.node for each in result.landed] == ["a"]
    assert [note for note in result.notes if "extend" in note] == [
        "policy extended has extenders, which a simulation does not ask"
    ]


def test_a_policy_is_valid_whatever_extenders_the_operator_defines(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(POLICY))
    result = CliRunner().invoke(main, ["policy", "lint", str(file)])
    assert result.exit_code == 0, result.output
    assert "whether extender 'gpus' exists is not checked" in result.output
    assert not Policy(POLICY).problem()


def test_an_evaluation_decides_without_the_extender(tmp_path):
    cluster, pod = tmp_path / "cluster.json", tmp_path / "pod.json"
    cluster.write_text(json.dumps({"kind": "List", "items": OBJECTS}))
    pod.write_text(json.dumps(POD))
    result = CliRunner().invoke(main, ["evaluate", "--pod", str(pod), str(cluster), "--output", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["policy"]["name"] == "extended"


@pytest.mark.parametrize("command", [("simulate",), ("explain", "pod/p")])
def test_the_commands_do_so_too(tmp_path, command):
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": OBJECTS}))
    result = CliRunner().invoke(main, [*command, str(file)])
    assert result.exit_code == 0, result.output
    assert "not accepted" not in result.output
    assert "extenders" in result.output
