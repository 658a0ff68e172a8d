"""`podwright shadow report`: the operator's answer as text and as JSON."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from podwright.cli.commands import shadow as command
from podwright.cli.main import main
from podwright.engine.process.steps import at_once
from podwright.engine.shadow.report import reports
from podwright.simulator.operator_client import OperatorError
from support.engine.kit import deciding, settle
from support.engine.shadows import ShadowRig, shadow_policy, theirs

OPERATOR = "--operator=http://127.0.0.1:1"


@pytest.fixture
async def answer():
    """The answer of an operator that has compared some pods."""
    rig = ShadowRig()
    rig.node("a", allocatable={"cpu": "4"})
    rig.node("b")
    rig.node("spot", allocatable={"cpu": "64"}, taints=[{"key": "spot", "effect": "NoSchedule"}])
    async with deciding(rig):
        await rig.apply(shadow_policy())
        await rig.placed(theirs("same", requests={"cpu": "1"}), "b")
        await rig.placed(theirs("lower", requests={"cpu": "1"}), "a")
        await rig.placed(theirs("tainted", requests={"cpu": "1"}), "spot")
        await settled(rig)
        await rig.appears(theirs("stuck", requests={"cpu": "1"}, unschedulable="0/3 nodes are available: \x1b[31m."))
        await settled(rig)
    return rig.report()


async def settled(rig):
    while rig.engine.shadow.worlds.has_work:
        await settle()


@pytest.fixture
def run(monkeypatch, answer):
    asked = []

    def ask(url, path, query, connection, *, ca_file):
        asked.append((url, path, query, ca_file, connection.as_user, *connection.as_groups))
        return answer if query.get("policy", "eye") == "eye" else {}

    monkeypatch.setattr(command, "ask", ask)

    def report(*args):
        return CliRunner().invoke(main, ["shadow", "report", OPERATOR, *args])

    report.asked = asked
    return report


def test_the_text_has_the_agreement_and_both_reasons_of_each_disagreement(run):
    lines = run().output.splitlines()
    assert lines[0] == "Policy eye, generation 1, beside scheduler default-scheduler, since 1970-01-01T00:16:40Z"
    assert lines[1:6] == [
        "  Agreement, without ties: 25.00 % of 4",
        "          1  the same node",
        "          1  the policy prefers another node",
        "          1  the policy rejects the actual node",
        "          1  only the policy finds a node",
    ]
    text = "\n".join(lines)
    assert "  Now: 1 pod without a node; the policy would place 1." in lines
    assert "  The last 3 disagreements:" in lines
    assert "    nodes in use: 3 and 2 of 3" in lines
    assert any(line.startswith("    cpu on nodes in use: ") for line in lines)
    assert "    under the policy: 2 pods on other nodes, 1 pod placed that has no node in the cluster" in lines
    assert "      actual: spot: TaintToleration: node(s) had untolerated taint(s)" in lines
    assert "      by plugin: NodeResourcesBalancedAllocation +4, NodeResourcesFit -1" in lines
    assert "      policy: b, score 458" in lines
    assert "      actual: a, score 455" in lines
    assert "default/lower at 1970-01-01T00:16:40Z: the policy prefers another node" in text


def test_the_text_names_the_last_groups_that_were_not_compared(run, answer):
    policy = answer["policies"][0]
    policy["skipped"], policy["groups"] = {"podGroup": 33}, [f"Job default/j{number}" for number in range(11)]
    lines = run().output.splitlines()
    at = lines.index("         33  not compared: in a pod group")
    assert lines[at + 1] == "             Job default/j1"
    assert lines[at + 10 : at + 12] == ["             Job default/j10", "             and 1 more pod groups"]


def test_texts_of_others_cannot_change_the_terminal(run):
    output = run().output
    assert "\x1b" not in output
    assert r"actual: no node: 0/3 nodes are available: \x1b[31m." in output


def test_json_is_the_answer_itself(run, answer):
    assert json.loads(run("-o", "json").output) == json.loads(json.dumps(answer))


def test_fewer_disagreements_are_shown_on_demand(run):
    assert "  The last disagreement:" in run("--disagreements=1").output
    assert "disagreement" not in run("--disagreements=0").output


def test_one_policy_is_asked_for_by_its_name(run):
    assert run("eye").exit_code == 0
    assert run.asked == [("http://127.0.0.1:1", "/debug/shadow", {"policy": "eye"}, None, "")]


def test_the_operator_is_asked_as_another_user(run):
    assert run("--as", "ann", "--as-group", "dev").exit_code == 0
    assert run.asked[0][4:] == ("ann", "dev")


def test_a_policy_that_is_not_in_shadow_mode_is_an_error(run):
    result = run("other")
    assert result.exit_code == 1
    assert "policy other is not in shadow mode" in result.output


def test_an_instance_that_stands_by_says_so(monkeypatch):
    answer = at_once(reports(ShadowRig().engine.shadow))
    monkeypatch.setattr(command, "ask", lambda *_args, **_options: answer)
    result = CliRunner().invoke(main, ["shadow", "report", OPERATOR])
    assert result.output == "This instance stands by, or has just started: ask the one that leads.\n"


def test_an_operator_that_does_not_answer_is_an_error(monkeypatch):
    def fail(*_args, **_options):
        raise OperatorError("http://127.0.0.1:1: refused")

    monkeypatch.setattr(command, "ask", fail)
    result = CliRunner().invoke(main, ["shadow", "report", OPERATOR])
    assert (result.exit_code, result.output) == (1, "Error: http://127.0.0.1:1: refused\n")
