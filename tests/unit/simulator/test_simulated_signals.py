"""Signals in simulations, explanations, replays and tests of policies: numbers come from annotations, from `values`, or
are the default.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner

from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.cli.main import main
from podwright.policies.cases import SuiteError, read_suite, run_case
from podwright.simulator.library import Cluster, Policy, explain, simulate
from podwright.simulator.loaded import LoadOptions
from podwright.simulator.snapshot import Snapshot, SnapshotError, parse_snapshot, read_snapshot, write_snapshot
from support.objects.builders import make_node, make_pod, make_policy

SIGNALS = """
signals:
- {name: load, resource: cpu, default: 50, annotation: {key: example.com/load}}
- {name: rank, values: {a: 5, b: 1}}
- {name: asked, resource: cpu, default: 30, metricsAPI: {}}
"""
BY_LOAD = {"strategy": {"type": "LoadAware"}, "signals": ["load"]}


def policy(**spec):
    return make_policy("pol", **spec)


def node(name, load=None):
    annotations = {} if load is None else {"example.com/load": str(load)}
    raw = make_node(name, allocatable={"cpu": "10", "memory": "10Gi", "pods": "110"})
    return {"apiVersion": "v1", "kind": "Node", **raw, "metadata": {**raw["metadata"], "annotations": annotations}}


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **make_pod(name, spec={"schedulerName": "podwright"}, requests={"cpu": "1"}),
    }


def cluster(*objects):
    found = Cluster.of(objects)
    return replace(found, settings=PolicySettings(signals=load_signals(SIGNALS.encode())))


def test_a_simulation_spreads_by_load_and_by_what_it_has_placed_itself():
    given = cluster(node("a", 10), node("b", 30), node("c"))
    found = simulate(given, pods=[pod(f"p{i}") for i in range(6)], policies=[Policy(policy(**BY_LOAD))])
    assert sorted(landed.node for landed in found.landed) == ["a"] * 4 + ["b"] * 2
    assert simulate(given, pods=[pod("p")], policies=[Policy(policy(**BY_LOAD))]).landed[0].node == "a"


def test_an_explanation_shows_the_score_by_load_as_that_of_any_plugin():
    placed = pod("p")
    placed["spec"]["nodeName"] = "a"
    given = cluster(node("a", 10), node("b", 30), policy(**BY_LOAD), placed)
    assert given.problems == []
    found = explain(given, "pod/p")
    assert "LoadAware" in str(found.scores)


def test_without_the_file_the_policy_is_refused_and_says_so():
    given = Cluster.of([node("a"), policy(**BY_LOAD)])
    assert "spec.signals[0]: signal 'load' is not defined; only the operator's option --signals" in given.problems[0]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "signals.yaml").write_text(SIGNALS)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy(**BY_LOAD)))
    dump = {"apiVersion": "v1", "kind": "List", "items": [node("a", 10), node("b", 30), policy(**BY_LOAD)]}
    (tmp_path / "cluster.json").write_text(json.dumps(dump))
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod("p")))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_lint_knows_the_signals_of_the_file(files):
    refused = run("policy", "lint", files / "policy.yaml")
    assert refused.exit_code == 1
    assert "spec.signals[0]: signal 'load' is not defined" in refused.output
    accepted = run("policy", "lint", files / "policy.yaml", "--signals", files / "signals.yaml")
    assert (accepted.exit_code, accepted.output) == (0, "")


@pytest.mark.parametrize("command", [("simulate", "--pods"), ("evaluate", "--pod")])
def test_commands_place_pods_by_the_signals_of_the_file(files, command):
    found = run(command[0], files / "cluster.json", command[1], files / "pod.yaml", "--signals", files / "signals.yaml", "--output", "json")  # fmt: skip
    assert found.exit_code == 0, found.output
    assert '"a"' in found.output
    assert "not defined" not in found.output


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [({"asked": {"a": 9.0, "b": 1.0}}, "b"), ({"asked": {"a": 1.0, "b": 9.0, "gone": 1.0}}, "a")],
    ids=["b is idle", "a is idle"],
)
def test_a_snapshot_has_the_numbers_that_sources_said_when_it_was_taken(files, numbers, expected):
    by_use = policy(strategy={"type": "LoadAware"}, signals=["asked"])
    taken = Snapshot(objects=[node("a"), node("b"), by_use], taken_at=1_800_000_000.0, signals=numbers)
    write_snapshot(taken, str(files / "taken.json.gz"))
    assert read_snapshot([str(files / "taken.json.gz")]).signals == numbers
    found = run("simulate", files / "taken.json.gz", "--pods", files / "pod.yaml", "--signals", files / "signals.yaml", "--output", "json")  # fmt: skip
    assert found.exit_code == 0, found.output
    (landed,) = json.loads(found.stdout)["landed"]
    assert landed["node"] == expected


@pytest.mark.parametrize(
    ("signals", "problem"),
    [
        ([], "podwright.signals: expected an object, got a list"),
        ({"load": 5}, "podwright.signals.load: expected an object, got a number"),
        ({"load": {"a": "5"}}, "podwright.signals.load.a: expected a number, got a string"),
    ],
    ids=["a list", "a number for all nodes", "a text"],
)
def test_numbers_of_a_snapshot_that_are_none_are_named(signals, problem):
    raw = {"apiVersion": "v1", "kind": "List", "podwright": {"signals": signals}, "items": []}
    with pytest.raises(SnapshotError, match=re.escape(problem)):
        parse_snapshot(json.dumps(raw).encode(), "taken.json")


def test_a_file_that_is_wrong_is_named(files):
    (files / "signals.yaml").write_text("signals: [{name: load}]")
    found = run("policy", "lint", files / "policy.yaml", "--signals", files / "signals.yaml")
    assert found.exit_code == 1
    assert "signals.yaml: signals[0]: needs exactly one of" in found.output


# Tests of policies

SUITE = {
    "policies": [policy(**BY_LOAD)],
    "nodes": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    "signals": [{"name": "load", "resource": "cpu", "values": {"a": 80, "b": 20}}],
    "tests": [
        {"name": "idle", "pods": [{"metadata": {"name": "p"}}], "expect": {"p": "b"}},
        {
            "name": "other load",
            "signals": [{"name": "load", "resource": "cpu", "values": {"a": 10, "b": 20}}],
            "pods": [{"metadata": {"name": "p"}}],
            "expect": {"p": "a"},
        },
    ],
}


def test_tests_of_policies_say_what_signals_are(tmp_path):
    path = tmp_path / "test_policies.yaml"
    path.write_text(yaml.safe_dump(SUITE))
    assert [run_case(case, LoadOptions()) for case in read_suite(path)] == [[], []]


def test_a_signal_that_a_test_defines_wrongly_is_named(tmp_path):
    path = tmp_path / "test_policies.yaml"
    path.write_text(yaml.safe_dump({**SUITE, "signals": [{"name": "load"}]}))
    with pytest.raises(SuiteError, match=r"signals\[0\]: needs exactly one of"):
        read_suite(path)
    path.write_text(
        yaml.safe_dump({**SUITE, "tests": [{**SUITE["tests"][0], "signals": [{"name": "x", "values": 1}]}]})
    )
    with pytest.raises(SuiteError, match=r"tests\[0\]\.signals\[0\]\.values"):
        read_suite(path)
