import gzip
import json

import pytest
from click.testing import CliRunner

from podwright.cli.evaluate import evaluate
from podwright.core.plugins import PLUGINS
from podwright.simulator.comparison import differences
from support.objects.builders import make_node, make_pod

CASE = {"id": "own/1", "nodes": [make_node("a"), make_node("b", unschedulable=True)], "pods": [], "pod": make_pod("p")}


def run(*args, stdin=None):
    return CliRunner().invoke(evaluate, [str(a) for a in args], input=stdin)


def lines(*cases):
    return "".join(json.dumps(case) + "\n" for case in cases)


def answer():
    return json.loads(run(stdin=lines(CASE)).stdout)["expect"]


def test_a_case_is_answered_in_the_format_of_the_conformance_data():
    expect = answer()
    assert expect["nodes"] == {
        "a": {"feasible": True},
        "b": {
            "feasible": False,
            "plugin": "NodeUnschedulable",
            "reasons": ["node(s) were unschedulable"],
            "resolvable": False,
        },
    }
    assert expect["best"] == ["a"]
    assert expect["total"]["a"] == sum(
        scores["a"] * {"TaintToleration": 3, "DynamicResources": 2}.get(plugin, 1)
        for plugin, scores in expect["scores"].items()
    )


def test_packed_files_and_standard_input_give_the_same(tmp_path):
    packed = tmp_path / "cases.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(CASE).encode()))
    assert run(packed).stdout == run("-", stdin=lines(CASE)).stdout


def test_a_case_that_cannot_be_read_is_named_and_does_not_stop_the_others():
    bad = {**CASE, "id": "own/2", "nodes": [make_node("n", allocatable={"cpu": "much"})]}
    result = run(stdin=lines(bad, CASE))
    first, second = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert first == {"id": "own/2", "error": "case own/2: Node n: status.allocatable[cpu]: 'much' is not a quantity"}
    assert second["expect"]["best"] == ["a"]


def test_check_agrees_with_itself_and_tells_the_first_difference():
    expect = answer()
    good = run("--check", stdin=lines({**CASE, "expect": expect}))
    assert good.exit_code == 0
    expect["total"]["a"] += 1
    bad = run("--check", stdin=lines({**CASE, "expect": expect}))
    assert bad.exit_code == 1
    assert "total.a" in bad.stdout


def test_a_sequence_goes_step_by_step_on_one_core():
    steps = [
        {"schedule": make_pod("one", requests={"cpu": "5"})},
        {"schedule": make_pod("two", requests={"cpu": "5"})},
        {"deletePod": {"namespace": "default", "name": "one"}},
        {"addNode": make_node("c", allocatable={"cpu": "1"})},
        {"schedule": make_pod("three", requests={"cpu": "5"})},
        {"deleteNode": "a"},
        {"schedule": make_pod("four", requests={"cpu": "5"})},
    ]
    answers = json.loads(run(stdin=lines({**CASE, "pod": None, "steps": steps})).stdout)["steps"]
    assert [step.get("placed") for step in answers] == ["a", None, None, None, "a", None, None]
    assert [list(step) for step in answers if "expect" not in step] == [[], [], []]
    assert answers[1]["expect"]["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were")


def test_a_dump_and_a_manifest_answer_where_a_pod_could_go(tmp_path):
    items = [{**node, "kind": "Node"} for node in CASE["nodes"]] + [{"kind": "Secret", "metadata": {"name": "s"}}]
    dump, manifest = tmp_path / "dump.json", tmp_path / "pod.yaml"
    dump.write_text(json.dumps({"kind": "List", "items": items}))
    manifest.write_text(json.dumps({**make_pod("p"), "kind": "Pod"}))
    result = run(dump, "--pod", manifest)
    assert "The pod would go to a." in result.stdout
    assert "NodeUnschedulable: node(s) were unschedulable" in result.stdout
    assert json.loads(run(dump, "--pod", manifest, "--output", "json").stdout)["best"] == ["a"]


@pytest.mark.parametrize(
    "parts, said",
    [
        pytest.param({"nodes": "a"}, "nodes: expected a list, got str", id="nodes that are text"),
        pytest.param({"nodes": 1}, "nodes: expected a list, got int", id="nodes that are a number"),
        pytest.param({"nodes": {"a": {}}}, "nodes: expected a list, got dict", id="nodes that are an object"),
        pytest.param({"pods": [1]}, "pods[0]: expected an object, got int", id="a placed pod that is a number"),
        pytest.param({"services": [None]}, "services[0]: expected an object, got nothing", id="a service that is null"),
        pytest.param({"pod": "p"}, "pod: expected an object, got str", id="a pod that is text"),
        pytest.param({"pod": []}, "pod: expected an object, got list", id="a pod that is a list"),
        pytest.param({"pod": None, "steps": None}, "pod: expected an object, got nothing", id="neither pod nor steps"),
        pytest.param({"steps": 1}, "steps: expected a list, got int", id="steps that are a number"),
        pytest.param({"steps": [1]}, "steps[0]: expected an object, got int", id="a step that is a number"),
        pytest.param({"steps": [{}]}, "steps: unknown step ''", id="a step that is empty"),
        pytest.param({"steps": [{"schedule": None}]}, "steps[0].schedule: expected an object", id="nothing to schedule"),
        pytest.param({"steps": [{"deletePod": {}}]}, "steps[0].deletePod.name: a name is", id="a pod without a name"),
        pytest.param({"steps": [{"deletePod": "p"}]}, "steps[0].deletePod: expected an object", id="a pod by its name"),
        pytest.param({"steps": [{"deleteNode": {}}]}, "steps[0].deleteNode: a name is required", id="a node by itself"),
        pytest.param({"steps": [{"addNode": []}]}, "steps[0].addNode: expected an object", id="a node that is a list"),
        pytest.param({"steps": [{"updateNamespace": "x"}]}, "steps[0].updateNamespace: expected", id="a namespace's name"),
        pytest.param({"items": []}, "items: to ask about a dump of kubectl get", id="a dump"),
    ],
)  # fmt: skip
def test_a_case_that_makes_no_sense_is_answered_with_its_field_and_the_others_go_on(parts, said):
    bad = {**CASE, "id": "own/bad", **parts}
    result = run(stdin=lines(bad, CASE))
    first, second = map(json.loads, result.stdout.splitlines())
    assert (result.exit_code, first["id"]) == (1, "own/bad")
    assert first["error"].startswith(f"case own/bad: {said}")
    assert second["expect"]["best"] == ["a"]
    assert run("--check", stdin=lines(bad)).exit_code == 1


def test_a_plugin_that_cannot_be_built_is_an_answer():
    class Stubborn(PLUGINS["NodeName"]):
        def __init__(self, args, handle):
            raise ValueError("not with me")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podwright.simulator.cases.PLUGINS", {**PLUGINS, "NodeName": Stubborn})
        (first,) = map(json.loads, run(stdin=lines(CASE)).stdout.splitlines())
    assert first == {
        "id": "own/1",
        "error": 'case own/1: initializing plugin "NodeName": ValueError: not with me',
    }


def test_a_scheduled_pod_may_have_no_spec():
    steps = [{"schedule": {"metadata": {"name": "p"}, "spec": None, "status": None}}]
    (answer,) = json.loads(run(stdin=lines({**CASE, "steps": steps})).stdout)["steps"]
    assert answer["placed"] == "a"


def test_a_packed_file_that_is_cut_off_is_said_and_the_next_one_is_read(tmp_path):
    cut, torn, good = tmp_path / "cut.gz", tmp_path / "torn.gz", tmp_path / "good.jsonl"
    packed = gzip.compress(lines(CASE).encode())
    cut.write_bytes(packed[:-12])
    torn.write_bytes(packed[:20] + b"\xff" * 40)
    good.write_text(lines(CASE))
    result = run(cut, torn, good)
    *bad, answer = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert {answer["id"] for answer in bad if "error" in answer} == {f"{path}:{1}" for path in (cut, torn)}
    assert all("cannot be unpacked" in answer["error"] for answer in bad if "error" in answer)
    assert answer["expect"]["best"] == ["a"]


def test_a_pretty_printed_dump_without_a_pod_is_told_what_is_missing(tmp_path):
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": CASE["nodes"]}, indent=2))
    (answer,) = map(json.loads, run(dump).stdout.splitlines())
    assert answer["id"] == f"{dump}:1"
    assert "give the pod with --pod" in answer["error"]


def test_a_line_that_is_no_case_is_answered_with_its_place_and_the_others_go_on():
    result = run(stdin="\n{]\n[]\n" + lines(CASE))
    bad, listed, good = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert bad["id"] == "-:2"
    assert bad["error"].startswith("-:2: not JSON")
    assert listed == {"id": "-:3", "error": "-:3: expected an object, got list"}
    assert good["expect"]["best"] == ["a"]
    assert run("--check", stdin="{]\n" + lines({**CASE, "expect": answer()})).exit_code == 1


def test_unknown_feature_gates_are_refused():
    assert "unknown feature gate 'Nonsense'" in run("--feature-gates", "Nonsense=true", stdin=lines(CASE)).stderr
    assert "neither true nor false" in run("--feature-gates", "ImageVolume", stdin=lines(CASE)).stderr


def test_a_comparison_takes_any_listed_message_node_and_alternative():
    candidates = {"n": {"victims": ["d/a"], "pdbViolations": 0, "alternatives": [["d/b"]]}}
    theirs = {
        "message": "x",
        "messages": ["x", "y"],
        "preemption": {"status": {"code": "Success"}, "nominatedNode": "n", "acceptable": ["m", "n"], "ambiguous": True, "candidates": candidates},
    }  # fmt: skip
    ours = {
        "message": "y",
        "preemption": {"status": {"code": "Success"}, "nominatedNode": "n", "victims": ["d/b"], "candidates": {"n": {"victims": ["d/b"], "pdbViolations": 0}}},
    }  # fmt: skip
    assert not list(differences({"expect": ours}, {"expect": theirs}))
    ours["preemption"]["victims"] = ["d/c"]
    assert list(differences({"expect": ours}, {"expect": theirs}))


POD = "kind: Pod\nmetadata: {name: p}\n"


@pytest.mark.parametrize(
    ("dump", "manifest", "said"),
    [
        pytest.param("garbage", POD, "not JSON", id="a dump that is no JSON"),
        pytest.param("", POD, "not JSON", id="an empty dump"),
        pytest.param("[]", POD, "the dump has no items", id="a dump that is a list"),
        pytest.param('{"items": [1]}', POD, "items[0]: expected an object, got int", id="an item that is no object"),
        pytest.param('{"items": []}', "a: [", "not one YAML document", id="a manifest that is no YAML"),
        pytest.param('{"items": []}', f"{POD}---\n{POD}", "not one YAML document", id="two manifests"),
        pytest.param('{"items": []}', "\0", "not one YAML document", id="a manifest that is no text"),
        pytest.param('{"items": []}', "[]", "expected a manifest of kind Pod", id="a manifest that is a list"),
        pytest.param('{"items": []}', "kind: Pod\nmetadata: text", "metadata", id="a pod whose metadata is text"),
        pytest.param('{"items": [{"kind": "Service"}]}', POD, "name", id="an item without a name"),
        pytest.param('{"items": [{"kind": "Node", "metadata": 1}]}', POD, "metadata", id="a node's metadata a number"),
    ],
)
def test_files_that_cannot_be_read_are_said_in_one_line(tmp_path, dump, manifest, said):
    files = tmp_path / "dump.json", tmp_path / "pod.yaml"
    for path, text in zip(files, (dump, manifest), strict=True):
        path.write_text(text)
    result = run(files[0], "--pod", files[1])
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert said in line
