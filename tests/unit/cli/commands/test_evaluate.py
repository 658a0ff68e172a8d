"""`podwright evaluate` as a user runs it: cases, comparisons, one pod on a dump, and input that is wrong."""

import gzip
import json

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.core.plugins import PLUGINS
from support.objects.builders import make_node, make_pod

CASE = {"id": "own/1", "nodes": [make_node("a"), make_node("b", unschedulable=True)], "pods": [], "pod": make_pod("p")}


def run(*args, stdin=None):
    return CliRunner().invoke(main, ["evaluate", *map(str, args)], input=stdin)


def lines(*cases):
    return "".join(json.dumps(case) + "\n" for case in cases)


def answer():
    return json.loads(run(stdin=lines(CASE)).stdout)["expect"]


def test_answers_have_the_format_of_the_conformance_cases():
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


def test_gzipped_files_and_standard_input_give_the_same_answers(tmp_path):
    packed = tmp_path / "cases.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(CASE).encode()))
    assert run(packed).stdout == run("-", stdin=lines(CASE)).stdout


def test_a_case_that_cannot_be_read_is_answered_with_an_error_and_the_next_one_runs():
    bad = {**CASE, "id": "own/2", "pod": make_pod("p", requests={"cpu": "much"})}
    result = run(stdin=lines(bad, CASE))
    first, second = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    problem = "spec.containers[0].resources.requests[cpu]: 'much' is not a quantity"
    assert first == {"id": "own/2", "error": f"case own/2: Pod default/p: {problem}"}
    assert second["expect"]["best"] == ["a"]


def test_check_accepts_its_own_answer_and_prints_the_first_difference():
    expect = answer()
    good = run("--check", stdin=lines({**CASE, "expect": expect}))
    assert good.exit_code == 0
    expect["total"]["a"] += 1
    bad = run("--check", stdin=lines({**CASE, "expect": expect}))
    assert bad.exit_code == 1
    assert "total.a" in bad.stdout


def test_check_does_not_cut_names():
    name = f"own/{'long-' * 20}name"
    table = run("--check", stdin=lines({**CASE, "id": name})).stdout
    texts = [line.split("│")[4].strip() for line in table.splitlines() if line.startswith("│")]
    assert name in "".join(texts)


def test_the_steps_of_a_sequence_run_in_order_on_one_core():
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


def test_a_dump_and_a_manifest_show_where_the_pod_can_run(tmp_path):
    items = [{**node, "kind": "Node"} for node in CASE["nodes"]] + [{"kind": "Secret", "metadata": {"name": "s"}}]
    dump, manifest = tmp_path / "dump.json", tmp_path / "pod.yaml"
    dump.write_text(json.dumps({"kind": "List", "items": items}))
    manifest.write_text(json.dumps({**make_pod("p"), "kind": "Pod"}))
    result = run(dump, "--pod", manifest)
    assert "The pod would go to a." in result.stdout
    assert "NodeUnschedulable: node(s) were unschedulable" in result.stdout
    assert json.loads(run(dump, "--pod", manifest, "--output", "json").stdout)["best"] == ["a"]


@pytest.mark.parametrize(
    "parts, error",
    [
        pytest.param({"nodes": "a"}, "nodes: expected a list, got a string", id="nodes are text"),
        pytest.param({"nodes": 1}, "nodes: expected a list, got a number", id="nodes are a number"),
        pytest.param({"nodes": {"a": {}}}, "nodes: expected a list, got an object", id="nodes are an object"),
        pytest.param({"pods": [1]}, "pods[0]: expected an object, got a number", id="a placed pod is a number"),
        pytest.param({"services": [None]}, "services[0]: expected an object, got nothing", id="a service is null"),
        pytest.param({"pod": "p"}, "pod: expected an object, got a string", id="the pod is text"),
        pytest.param({"pod": []}, "pod: expected an object, got a list", id="the pod is a list"),
        pytest.param({"pod": None, "steps": None}, "pod: expected an object, got nothing", id="neither pod nor steps"),
        pytest.param({"steps": 1}, "steps: expected a list, got a number", id="steps are a number"),
        pytest.param({"steps": [1]}, "steps[0]: expected an object, got a number", id="a step is a number"),
        pytest.param({"steps": [{}]}, "steps: unknown step ''", id="a step is empty"),
        pytest.param({"steps": [{"schedule": None}]}, "steps[0].schedule: expected an object", id="nothing to schedule"),
        pytest.param({"steps": [{"deletePod": {}}]}, "steps[0].deletePod.name: a name is", id="a pod to delete has no name"),
        pytest.param({"steps": [{"deletePod": "p"}]}, "steps[0].deletePod: expected an object", id="a pod to delete is only a name"),
        pytest.param({"steps": [{"deleteNode": {}}]}, "steps[0].deleteNode: a name is required", id="a node to delete is an object"),
        pytest.param({"steps": [{"addNode": []}]}, "steps[0].addNode: expected an object", id="a node to add is a list"),
        pytest.param({"steps": [{"updateNamespace": "x"}]}, "steps[0].updateNamespace: expected", id="a namespace to update is only a name"),
        pytest.param({"items": []}, "items: for a dump of kubectl get", id="the line is a dump"),
    ],
)  # fmt: skip
def test_a_malformed_case_is_answered_with_the_wrong_field_and_the_next_one_runs(parts, error):
    bad = {**CASE, "id": "own/bad", **parts}
    result = run(stdin=lines(bad, CASE))
    first, second = map(json.loads, result.stdout.splitlines())
    assert (result.exit_code, first["id"]) == (1, "own/bad")
    assert first["error"].startswith(f"case own/bad: {error}")
    assert second["expect"]["best"] == ["a"]
    assert run("--check", stdin=lines(bad)).exit_code == 1


def test_a_plugin_that_cannot_be_constructed_is_reported_in_the_answer():
    class Unconstructible(PLUGINS["NodeName"]):
        def __init__(self, args, handle):
            raise ValueError("cannot be constructed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podwright.simulator.evaluations.cases.PLUGINS", {**PLUGINS, "NodeName": Unconstructible})
        (first,) = map(json.loads, run(stdin=lines(CASE)).stdout.splitlines())
    assert first == {
        "id": "own/1",
        "error": 'case own/1: initializing plugin "NodeName": ValueError: cannot be constructed',
    }


def test_a_pod_without_a_spec_is_scheduled():
    steps = [{"schedule": {"metadata": {"name": "p"}, "spec": None, "status": None}}]
    (answer,) = json.loads(run(stdin=lines({**CASE, "steps": steps})).stdout)["steps"]
    assert answer["placed"] == "a"


def test_a_truncated_or_corrupt_gzip_file_is_reported_and_the_next_file_is_read(tmp_path):
    truncated, corrupt, good = tmp_path / "truncated.gz", tmp_path / "corrupt.gz", tmp_path / "good.jsonl"
    packed = gzip.compress(lines(CASE).encode())
    truncated.write_bytes(packed[:-12])
    corrupt.write_bytes(packed[:20] + b"\xff" * 40)
    good.write_text(lines(CASE))
    result = run(truncated, corrupt, good)
    *bad, answer = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert {answer["id"] for answer in bad if "error" in answer} == {f"{path}:{1}" for path in (truncated, corrupt)}
    assert all("cannot be unpacked" in answer["error"] for answer in bad if "error" in answer)
    assert answer["expect"]["best"] == ["a"]


def test_a_pretty_printed_dump_without_a_pod_is_answered_with_a_hint(tmp_path):
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": CASE["nodes"]}, indent=2))
    (answer,) = map(json.loads, run(dump).stdout.splitlines())
    assert answer["id"] == f"{dump}:1"
    assert "give the pod with --pod" in answer["error"]


def test_a_line_that_is_not_a_case_is_answered_with_its_line_number_and_the_next_one_runs():
    result = run(stdin="\n{]\n[]\n" + lines(CASE))
    bad, listed, good = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert bad["id"] == "-:2"
    assert bad["error"].startswith("-:2: not JSON")
    assert listed == {"id": "-:3", "error": "-:3: expected an object, got a list"}
    assert good["expect"]["best"] == ["a"]
    assert run("--check", stdin="{]\n" + lines({**CASE, "expect": answer()})).exit_code == 1


@pytest.mark.parametrize(("options", "has_rules"), [((), True), (("--emulated-version=1.36",), False)])
def test_the_kinds_of_a_dump_are_those_of_the_given_version_of_kubernetes(options, has_rules):
    kinds = run("--kinds", *options).stdout.strip().split(",")
    assert {"nodes", "pods", "resourceclaims", "schedulerpolicies"} <= set(kinds)
    assert ("devicetaintrules" in kinds) == has_rules


def test_unknown_feature_gates_are_rejected():
    assert "unknown feature gate 'Nonsense'" in run("--feature-gates", "Nonsense=true", stdin=lines(CASE)).stderr
    assert "neither true nor false" in run("--feature-gates", "ImageVolume", stdin=lines(CASE)).stderr


@pytest.mark.parametrize(
    ("version", "best"),
    [
        pytest.param("1.37", [], id="1.37: the driver is missing on the node"),
        pytest.param("1.36", ["a"], id="1.36 does not ask"),
    ],
)
def test_the_feature_gates_are_those_of_the_given_version_of_kubernetes(version, best):
    driver = {"metadata": {"name": "csi"}, "spec": {"preventPodSchedulingIfMissing": True}}
    volume = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "csi", "volumeHandle": "1"}}}
    claim = {
        "metadata": {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    }
    claim["spec"] = {"volumeName": "pv"}
    asking = make_pod("p")
    asking["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = {"csiDrivers": [driver], "persistentVolumes": [volume], "persistentVolumeClaims": [claim]}
    case = {**CASE, "pod": asking, **objects}
    result = run("--emulated-version", version, stdin=lines(case))
    assert json.loads(result.stdout)["expect"].get("best", []) == best


def test_a_version_of_kubernetes_that_is_not_supported_is_rejected():
    result = run("--emulated-version", "1.33", stdin=lines(CASE))
    assert result.exit_code == 1
    assert "'1.33' is not a version from 1.34 to 1.37" in result.stderr


POD = "kind: Pod\nmetadata: {name: p}\n"


@pytest.mark.parametrize(
    ("dump", "manifest", "error"),
    [
        pytest.param("{garbage}", POD, "not JSON", id="the dump is not JSON"),
        pytest.param("", POD, "is empty", id="the dump is empty"),
        pytest.param("[]", POD, "expected an object, got a list", id="the dump is a list"),
        pytest.param(
            '{"items": [1]}', POD, "items[0]: expected an object, got a number", id="an item is not an object"
        ),
        pytest.param('{"items": []}', "a: [", "not YAML", id="the manifest is not YAML"),
        pytest.param(
            '{"items": []}',
            f"{POD}---\n{POD}",
            "expected one manifest of kind Pod",
            id="the manifest has two documents",
        ),
        pytest.param('{"items": []}', "\0", "not YAML", id="the manifest is not text"),
        pytest.param('{"items": []}', "[]", "expected an object, got a list", id="the manifest is a list"),
        pytest.param('{"items": []}', "kind: Pod\nmetadata: text", "metadata", id="metadata of the pod is text"),
    ],
)
def test_files_that_cannot_be_read_are_reported_in_one_line(tmp_path, dump, manifest, error):
    files = tmp_path / "dump.json", tmp_path / "pod.yaml"
    for path, text in zip(files, (dump, manifest), strict=True):
        path.write_text(text)
    result = run(files[0], "--pod", files[1])
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert error in line
