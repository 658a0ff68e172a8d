"""ConfigMaps with params of policies count in simulations as in the operator, and what is lacking is named."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from podwright.api.spec.rules import MAX_PARAM
from podwright.cli.main import main
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.policies.cases import read_suite, run_case
from podwright.simulator import params
from podwright.simulator.evaluations.dump import evaluate_pod
from podwright.simulator.library import Cluster, Policy, explain, simulate
from podwright.simulator.loaded import LoadOptions
from podwright.simulator.params import SHOWN, kept_of, named_in
from podwright.simulator.replay.run import ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, ReplayStream
from podwright.simulator.snapshot import Snapshot
from support.objects.builders import make_node, make_pod, make_policy
from support.policies.local import delegating, local_policy

API = "podwright.dev/v1alpha1"
OPERATOR = "podwright-system"
FROM = {"configMapRef": {"name": "tiers"}}
LACKS = "policy pol: ConfigMap podwright-system/tiers is not in the snapshot: the params of the policy alone are used"


def rules(*expressions):
    return {"filters": [{"name": f"f{i}", "expression": text} for i, text in enumerate(expressions)]}


def policy(name="pol", expression="node.name == params.node", **more):
    spec = {"rules": rules(expression), "params": {"node": "a"}, "paramsFrom": FROM, **more}
    return make_policy(name, 1, **spec)


def ours(**spec):
    own = local_policy(rules=rules("node.name == params.node"), params={"node": "a"}, paramsFrom=FROM, **spec)
    return {"apiVersion": API, "kind": "LocalSchedulerPolicy", **own}


def config_map(namespace=OPERATOR, name="tiers", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"node": "b"},
    }


def node(name):
    return {"apiVersion": "v1", "kind": "Node", **make_node(name)}


def pod(name="p", namespace="default"):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **make_pod(name, namespace=namespace, spec={"schedulerName": "podwright"}),
    }


NODES = (node("a"), node("b"))
DELEGATES = {"apiVersion": API, "kind": "SchedulerPolicy", **delegating(delegation={"rules": True})}

NO_NODE = ReplayCandidate("one", [policy(params={"node": "none"})])


def landed(*objects, **hypothesis):
    found = simulate(Cluster.of([*NODES, *objects]), **hypothesis)
    return [each.node for each in found.landed], [note for note in found.notes if "ConfigMap" in note]


def test_a_simulation_takes_the_params_of_the_config_map_and_names_it_where_it_lacks():
    assert landed(policy(), pod(), config_map()) == (["b"], [])
    assert landed(policy(), pod()) == (["a"], [LACKS])
    assert landed(policy(), pod(), config_map(namespace="elsewhere")) == (["a"], [LACKS])


def test_a_policy_that_is_tried_takes_them_too():
    assert landed(config_map(), pods=[pod()], policies=[Policy(policy())]) == (["b"], [])
    assert landed(pods=[pod()], policies=[Policy(policy())]) == (["a"], [LACKS])


def test_a_local_policy_takes_them_from_its_own_namespace():
    team = pod(namespace="team-a")
    assert landed(DELEGATES, ours(), team, config_map(namespace="team-a")) == (["b"], [])
    own = "ConfigMap team-a/tiers"
    nodes, (note,) = landed(DELEGATES, ours(), team, config_map())
    assert nodes == ["a"]
    assert note.startswith(f"policy team-a/ours: {own} is not in the snapshot: ")


def test_a_config_map_that_the_operator_would_not_take_is_not_taken():
    large = config_map(namespace="team-a", node="b", other="x" * (MAX_PARAM + 1))
    nodes, (note,) = landed(DELEGATES, ours(), pod(namespace="team-a"), large)
    assert nodes == ["a"]
    assert f"ConfigMap team-a/tiers has {MAX_PARAM + 1} characters under other, more than {MAX_PARAM}: " in note


def test_what_the_snapshot_says_about_a_config_map_is_the_reason():
    snapshot = Snapshot(
        objects=[*NODES, policy(), pod()], missing={"ConfigMap podwright-system/tiers": params.NOT_ALLOWED}
    )
    (note,) = simulate(Cluster(snapshot)).notes
    assert note == LACKS.replace(params.ABSENT, params.NOT_ALLOWED)


@pytest.mark.parametrize("data", [None, 3, ["x"], {"node": 7}, {"node": {"a": 1}}])
def test_data_of_another_type_is_left_out(data):
    assert landed(policy(), pod(), {**config_map(), "data": data}) == (["a"], [])


def test_the_notes_about_many_policies_are_bounded():
    nodes, notes = landed(*(policy(f"pol-{i:03}") for i in range(SHOWN + 5)))
    assert nodes == []
    assert len(notes) == SHOWN + 1
    assert notes[-1] == "5 more policies lack ConfigMaps"


def test_an_explanation_says_which_params_are_lacking():
    only_c = policy(expression="node.name == params.node + 'x'")
    assert explain(Cluster.of([*NODES, only_c, pod()]), "pod/p").notes == (LACKS,)
    assert explain(Cluster.of([*NODES, only_c, pod(), config_map()]), "pod/p").notes == ()
    there = pod()
    there["spec"]["nodeName"] = "a"
    assert LACKS in explain(Cluster.of([*NODES, policy(), there]), "pod/p").notes


def test_evaluate_takes_them_from_a_dump():
    options = LoadOptions(Features(), PLUGINS)
    with_it = evaluate_pod(Snapshot(objects=[*NODES, policy(), config_map()]), pod(), options)
    assert with_it["nodes"]["b"]["feasible"]
    assert "missingParams" not in with_it
    without = evaluate_pod(Snapshot(objects=[*NODES, policy()]), pod(), options)
    assert not without["nodes"]["b"]["feasible"]
    assert without["missingParams"] == ["ConfigMap podwright-system/tiers is not in the snapshot"]


def test_a_test_of_policies_takes_them_from_its_objects(tmp_path):
    def outcome(*objects, expect="b"):
        test = {"name": "t", "pods": [{"metadata": {"name": "p"}}], "expect": {"p": expect}}
        suite = {"policies": [policy()], "nodes": [*NODES], "objects": [*objects], "tests": [test]}
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
        (case,) = read_suite(tmp_path / "suite.yaml")
        return run_case(case, LoadOptions())

    assert outcome(config_map()) == []
    assert outcome(expect="a") == []
    assert outcome() == ["default/p: is on a, and should be on b", LACKS]


def test_a_replay_takes_them_from_the_initial_cluster():
    def replayed(*objects):
        events = [Arrival(1.0, parse_pod(pod()), None)]
        (card,) = replay(ReplayStream(initial=[*NODES, *objects], events=events, start=0.0, end=2.0), [NO_NODE])
        return card.placed, [*card.notes]

    assert replayed(config_map()) == (1, [])
    assert replayed() == (0, [LACKS])


def test_policy_diff_says_which_are_lacking(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [*NODES, pod(), config_map()]}))
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(policy()))
    args = ["policy", "diff", "--new", str(tmp_path / "new.yaml"), "-o", "json", str(tmp_path / "cluster.json")]
    found = CliRunner().invoke(main, args)
    assert [each["after"]["best"] for each in json.loads(found.stdout)["differences"]] == [["b"]]
    assert "Note" not in found.stderr
    elsewhere = CliRunner().invoke(main, [*args, "--operator-namespace", "other"])
    assert [each["after"]["best"] for each in json.loads(elsewhere.stdout)["differences"]] == [["a"]]
    assert f"Note: {LACKS.replace(OPERATOR, 'other')}" in elsewhere.stderr


# Which ConfigMaps and keys a snapshot keeps


@pytest.mark.parametrize(
    "expression, keys",
    [
        ("node.name == params.tier", {"tier"}),
        ("node.name == params['a.b'] && has(params.c) && 'd' in params", {"a.b", "c", "d"}),
        ("params[?'e'].orValue('') == ''", {"e"}),
        ("node.name == policy.params.own", set()),
        ("node.name == 'params.x'", set()),
        ("params[pod.name] == ''", None),
        ("params.all(key, key != '')", None),
        ("node.unheardOf(params.x)", None),
    ],
)
def test_the_keys_that_rules_read(expression, keys):
    assert named_in([policy(expression=expression)], OPERATOR) == {(OPERATOR, "tiers"): keys}


def test_all_policies_that_name_a_config_map_count_with_the_generation_in_force():
    other = policy("other", "node.name == params.other")
    older = {"status": {"lastAccepted": {"generation": 1, "spec": policy(expression="params.old == ''")["spec"]}}}
    changed = {**policy(), **older}
    assert named_in([changed, other, ours()], OPERATOR) == {
        (OPERATOR, "tiers"): {"node", "other", "old"},
        ("team-a", "tiers"): {"node"},
    }


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {"paramsFrom": 1},
        {"paramsFrom": {"configMapRef": {"name": 5}}},
        {"paramsFrom": {"configMapRef": {"name": ""}}},
    ],
)
def test_a_spec_that_names_none(spec):
    assert named_in([{"apiVersion": API, "kind": "SchedulerPolicy", "metadata": 1, "spec": spec}], OPERATOR) == {}


@pytest.mark.parametrize("spec", [{"rules": 1}, {"rules": {"filters": {}, "scores": [1, {"expression": 2}]}}, {"signals": [1, "$", "load"], "rules": rules("params.x == ''")}])  # fmt: skip
def test_a_spec_with_anything_in_it_can_be_read(spec):
    assert [*named_in([policy() | {"spec": {"paramsFrom": FROM, **spec}}], OPERATOR)] == [(OPERATOR, "tiers")]


def test_other_keys_and_fields_of_a_config_map_are_left_out():
    raw = config_map(node="b", password="hunter2") | {"binaryData": {"k": "aHVudGVyMg=="}}
    raw["metadata"]["annotations"] = {"note": "hunter2"}
    assert kept_of(raw, frozenset({"node", "absent"})) == config_map(node="b")
