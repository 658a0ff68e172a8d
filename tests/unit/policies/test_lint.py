"""`podwright policy lint`: the operator's verdict on files, with lines and columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podwright.cli.main import main
from podwright.policies.findings import Finding, sarif
from support.objects.queues import BAD as BAD_QUEUES
from support.objects.queues import wrong_field

POLICY = "apiVersion: podwright.dev/v1alpha1\nkind: SchedulerPolicy\nmetadata: {name: p}\n"
LOCAL = "apiVersion: podwright.dev/v1alpha1\nkind: LocalSchedulerPolicy\nmetadata: {name: l, namespace: team}\n"
RULE = "spec:\n  rules:\n    filters:\n      - name: tier\n        message: another tier\n        expression: "


def run(folder: Path, content: str | bytes, *flags: str) -> Result:
    (folder / "p.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(main, ["policy", "lint", "p.yaml", *flags])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(
            POLICY + "spec: {strategy: {type: Most}}\n",
            "p.yaml:4:25: error: SchedulerPolicy p: spec.strategy.type: 'Most' is not one of",
            id="a value that the schema refuses",
        ),
        pytest.param(
            POLICY + RULE + "|\n          true &&\n            node.lables.size() > 0\n",
            "p.yaml:11:17: error: SchedulerPolicy p: spec.rules.filters[0].expression: undefined field 'lables' [Invalid]",
            id="a misspelt field in an expression",
        ),
        pytest.param(
            POLICY + RULE + "'node.name =='\n",
            "p.yaml:9:34: error: SchedulerPolicy p: spec.rules.filters[0].expression: ",
            id="an expression that ends too early",
        ),
        pytest.param(
            POLICY + "spec: {strategy: {type: Custom}, plugins: {score: {enabled: [{name: NoSuchPlugin}]}}}\n",
            "p.yaml:4:69: error: SchedulerPolicy p: spec.plugins.score.enabled[0].name: ",
            id="an unknown plugin",
        ),
        pytest.param(
            POLICY + "spec:\n  precedence: 1\n  precedence: 2\n",
            "p.yaml:6:3: error: the key precedence is there twice [YAML]",
            id="a key that is there twice",
        ),
        pytest.param("kind: [\n", "p.yaml:2:1: error: not YAML: ", id="no YAML"),
        pytest.param(
            "kind: A\na: &x {b: *x}\n",
            "p.yaml:2:1: error: the alias *x is inside of what it stands for [YAML]",
            id="an alias of itself",
        ),
        pytest.param(
            "apiVersion: podwright.io/v1alpha1\nkind: SchedulerPolicy\nmetadata: {name: p}\nspec: {}\n",
            "p.yaml:1:13: error: the API group of kind SchedulerPolicy is podwright.dev, not 'podwright.io' [Kind]",
            id="a misspelt API group",
        ),
        pytest.param(
            "kind: SchedulerPolicy\nmetadata: {name: p}\nspec: {}\n",
            "p.yaml:1:1: error: the API group of kind SchedulerPolicy is podwright.dev, and its apiVersion is missing [Kind]",
            id="no apiVersion",
        ),
        pytest.param(
            "kind: LocalSchedulerPolicy\nmetadata: {name: p, namespace: n}\nspec: {strategy: {type: Most}}\n",
            "p.yaml:3:25: error: LocalSchedulerPolicy p: spec.strategy.type: ",
            id="another error beside a missing apiVersion",
        ),
        pytest.param(
            "apiVersion: v1alpha1\nkind: SchedulerPolicy\nmetadata: {name: p}\nspec: {}\n",
            "p.yaml:1:13: error: the API group of kind SchedulerPolicy is podwright.dev, not 'v1alpha1' [Kind]",
            id="a version without a group",
        ),
        pytest.param(
            "apiVersion: podwrigth.dev/v1alpha1\nkind: SchedulerPolicy\nmetadata: {name: p}\nspec: {}\n",
            "p.yaml:1:13: error: the API group of kind SchedulerPolicy is podwright.dev, not 'podwrigth.dev' [Kind]",
            id="an API group with letters in the wrong order",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1\nkind: SchedulerPolicy\nmetadata: {name: p}\nspec: {}\n",
            "p.yaml:1:13: error: SchedulerPolicy p: apiVersion: 'podwright.dev/v1' should be 'podwright.dev/v1alpha1'",
            id="another version",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1alpha1\nkind: SchedulingPolicy\nspec: {}\n",
            "p.yaml:2:7: error: kind 'SchedulingPolicy' does not exist in podwright.dev; did you mean 'SchedulerPolicy'? [Kind]",
            id="a misspelt kind",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1alpha1\nkind: RebalancePolicy\nmetadata: {name: r}\nspec: {goals: [{type: Empty}]}\n",
            "p.yaml:4:23: error: RebalancePolicy r: spec.goals[0].type: ",
            id="a rebalance policy",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec: {namespace: a, slots: 1}\n",
            "p.yaml:4:29: error: Reservation r: spec.slots: ",
            id="a reservation",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1alpha1\nkind: Topology\nmetadata: {name: t}\nspec: {levels: 1}\n",
            "p.yaml:4:16: error: Topology t: spec.levels: ",
            id="a topology",
        ),
        pytest.param(
            "apiVersion: podwright.dev/v1alpha1\nkind: WorkloadGrouping\nmetadata: {name: g}\n"
            "spec: {owner: {apiVersion: batch/v1, kind: Job}, minCount: ownr.spec}\n",
            "p.yaml:4:64: error: WorkloadGrouping g: spec.minCount: ",
            id="the expression of a grouping",
        ),
        pytest.param("kind: A\n---\n- 1\n", "p.yaml:1:1: error: document 2: expected an object", id="no object"),
        pytest.param(b"kind: \xff\n", "p.yaml:1:1: error: ", id="no UTF-8"),
    ],
)
def test_what_the_operator_would_refuse_is_an_error_with_its_place(
    tmp_path: Path, content: str | bytes, found: str
) -> None:
    result = run(tmp_path, content)
    assert (result.exit_code, result.output.count(found)) == (1, 1), result.output


@pytest.mark.parametrize(("mode", "code"), [("Shadow", 0), ("Enforce", 1)])
def test_only_a_policy_in_shadow_mode_may_look_at_the_pods_of_any_scheduler(tmp_path, mode, code):
    assert run(tmp_path, POLICY + f"spec: {{mode: {mode}, schedulerName: default-scheduler}}\n").exit_code == code


def test_valid_policies_and_other_objects_are_no_findings(tmp_path: Path) -> None:
    content = f"{POLICY}spec: {{}}\n---\nkind: Pod\nspec: [1]\n---\napiVersion: other.dev/v1\nkind: SchedulerPolicy\n"
    result = run(tmp_path, content)
    assert (result.exit_code, result.output) == (0, "")


def test_the_groupings_and_examples_that_we_ship_are_no_findings() -> None:
    manifests = Path(__file__).parents[3] / "manifests"
    folders = ("groupings", *(f"examples/{name}" for name in ("groupings", "queues", "rebalance", "topology")))
    files = [str(file) for folder in folders for file in sorted((manifests / folder).glob("*.yaml"))]
    assert len(files) > 20
    result = CliRunner().invoke(main, ["policy", "lint", *files])
    assert (result.exit_code, result.output) == (0, "")


def test_the_options_of_the_operator_bound_scheduler_names(tmp_path: Path) -> None:
    content = POLICY + "spec: {schedulerName: other}\n"
    assert run(tmp_path, content).exit_code == 0
    result = run(tmp_path, content, "--allowed-scheduler-names=mine")
    assert result.exit_code == 1
    assert "p.yaml:4:23: error: SchedulerPolicy p: spec.schedulerName: " in result.output


def test_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    policy = '{\n\t"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "p"},\n\t"spec": {"precedence": %s}\n}'
    assert run(tmp_path, policy % 1).output == ""
    assert "p.yaml:3:25: error: SchedulerPolicy p: spec.precedence: " in run(tmp_path, policy % '"x"').output


def test_policies_that_never_decide_are_a_warning(tmp_path: Path) -> None:
    second = POLICY.replace("name: p", "name: q")
    result = run(tmp_path, f"{POLICY}spec: {{precedence: 2}}\n---\n{second}spec: {{match: {{namespaces: [a]}}}}\n")
    assert result.exit_code == 0
    assert "p.yaml:9:15: warning: SchedulerPolicy q: spec.match: never decides about a pod" in result.output


def test_policies_of_equal_precedence_that_overlap_are_a_warning(tmp_path: Path) -> None:
    second = POLICY.replace("name: p", "name: q")
    match = "spec: {precedence: 1, match: {podSelector: {matchLabels: {%s: x}}}}\n"
    result = run(tmp_path, f"{POLICY}{match % 'a'}---\n{second}{match % 'b'}")
    assert result.exit_code == 0
    assert result.output.count("warning") == 2
    assert (
        "p.yaml:4:20: warning: SchedulerPolicy p: spec.precedence: matches pods that SchedulerPolicy q" in result.output
    )


def test_a_local_policy_is_held_against_the_delegation_in_the_same_files(tmp_path: Path) -> None:
    bound = f"{POLICY}spec: {{delegation: {{strategies: [LeastAllocated]}}}}\n---\n"
    local = f"{LOCAL}spec: {{strategy: {{type: MostAllocated}}}}\n"
    result = run(tmp_path, bound + local)
    assert result.exit_code == 1
    assert "p.yaml:9:25: error: LocalSchedulerPolicy l: spec.strategy.type: " in result.output
    assert "SchedulerPolicy p" in result.output
    alone = run(tmp_path, local)
    assert alone.exit_code == 0
    assert "p.yaml:4:7: note: LocalSchedulerPolicy l: spec: what it may do is not checked" in alone.output
    assert run(tmp_path, f"{LOCAL}spec: {{strategy: {{type: Nonsense}}}}\n").exit_code == 1


def test_a_local_policy_that_exceeds_its_bounds_also_has_its_wrong_fields_reported(tmp_path: Path) -> None:
    bound = f"{POLICY}spec: {{delegation: {{rules: true, maxWeight: 5}}}}\n---\n"
    rules = "spec: {rules: {scores: [{name: s, weight: 9, expression: 'size(node.lables)'}]}}\n"
    lines = run(tmp_path, f"{bound}{LOCAL}{rules}").output.splitlines()
    assert [line.partition("LocalSchedulerPolicy l: ")[2].partition(": ")[0] for line in lines[:2]] == [
        "spec.rules.scores[0].weight",
        "spec.rules.scores[0].expression",
    ]
    assert "9 is more than the 5" in lines[0]
    assert "undefined field 'lables'" in lines[1]


def test_sarif_has_each_finding_with_its_place(tmp_path: Path) -> None:
    (one,) = json.loads(run(tmp_path, POLICY + "spec: {precedence: x}\n", "-o", "sarif").output)["runs"]
    (found,) = one["results"]
    region = found["locations"][0]["physicalLocation"]
    assert region == {"artifactLocation": {"uri": "p.yaml"}, "region": {"startLine": 4, "startColumn": 20}}
    assert (found["ruleId"], found["level"]) == ("Invalid", "error")
    assert one["tool"]["driver"]["rules"][found["ruleIndex"]] == {"id": "Invalid"}
    assert sarif([Finding("a/b.yaml", 1, 1, "note", "R", "m")])["version"] == "2.1.0"


def test_anchors_and_aliases_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    content = (
        f"{POLICY}spec:\n  rules:\n    filters:\n      - &first {{name: a, expression: node.unschedulable, message: m}}\n"
        "      - {<<: *first, name: b}\n      - {name: c, expression: *x}\n"
    )
    found = run(tmp_path, content.replace("expression: node.unschedulable", "expression: &x node.unschedulable"))
    assert (found.exit_code, found.output) == (0, "")
    found = run(tmp_path, content.replace("expression: node.unschedulable", "expression: &x node.lables"))
    assert (found.exit_code, found.output.count("undefined field 'lables'")) == (1, 3)


def test_extenders_are_checked_against_the_file_that_defines_them(tmp_path: Path) -> None:
    content = f"{POLICY}spec: {{extenders: [carbon, carbn]}}\n"
    found = run(tmp_path, content)
    assert found.exit_code == 0
    assert (
        "p.yaml:4:28: note: SchedulerPolicy p: spec.extenders[1]: whether extender 'carbn' exists is not"
        in found.output
    )
    defined = tmp_path / "extenders.yaml"
    defined.write_text("extenders:\n  - {name: carbon, urlPrefix: 'http://carbon', filterVerb: filter}\n")
    found = run(tmp_path, content, "--extenders", str(defined))
    assert found.exit_code == 1, found.output
    assert "p.yaml:4:28: error: SchedulerPolicy p: spec.extenders[1]: extender 'carbn' is not defined" in found.output
    assert "carbon" not in found.output.replace("podwright", "")


QUEUE = "apiVersion: podwright.dev/v1alpha1\nkind: SchedulingQueue\nmetadata: {name: %s}\nspec: {parent: '%s', resources: {nvidia.com/gpu: {guarantee: %s, limit: %s}}}\n"


def queues(*each: tuple[str, str, object, object]) -> str:
    return "---\n".join(QUEUE % one for one in each)


@pytest.mark.parametrize("path", BAD_QUEUES, ids=lambda path: path.stem)
def test_an_invalid_queue_is_an_error_at_its_field(tmp_path: Path, path: Path) -> None:
    text = path.read_text()
    found = [each for each in run(tmp_path, text).output.splitlines() if ": error: SchedulingQueue " in each]
    field = wrong_field(path)
    assert found, text
    assert any(f": {field}" in each for each in found), (field, found)
    line = int(found[0].split(":")[1])
    assert line > 1, "it has a place in the file"


def test_queues_are_checked_as_a_tree(tmp_path: Path) -> None:
    result = run(tmp_path, queues(("a", "b", 1, 2), ("b", "a", 1, 2), ("c", "", 1, 8), ("d", "c", 2, 4)))
    assert result.exit_code == 1
    assert result.output.splitlines()[:3] == [
        "p.yaml:4:16: error: SchedulingQueue a: spec.parent: queue 'b' is below this queue [Invalid]",
        "p.yaml:9:16: error: SchedulingQueue b: spec.parent: queue 'a' is below this queue [Invalid]",
        "p.yaml:14:60: error: SchedulingQueue c: spec.resources[nvidia.com/gpu].guarantee: the queues right below are guaranteed 2, more than the 1 of this queue [Invalid]",
    ]


def test_guarantees_that_the_parent_does_not_cover_are_a_warning(tmp_path: Path) -> None:
    result = run(tmp_path, queues(("a", "", 0, 8), ("b", "a", 6, 8), ("c", "", 0, 8)))
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        "p.yaml:4:60: warning: SchedulingQueue a: spec.resources[nvidia.com/gpu].guarantee: the queues right below are"
        " guaranteed 6, more than the 0 of this queue, so they may get less [GuaranteesNotCovered]"
    )
    beside = run(tmp_path, queues(("b", "a", 0, 8), ("c", "b", 6, 8), ("d", "", 0, 8)))
    assert "warning" not in beside.output, "a is not known"


def test_a_parent_that_is_in_no_file_is_a_note(tmp_path: Path) -> None:
    result = run(tmp_path, queues(("a", "cluster", 1, 2)))
    assert result.exit_code == 0
    assert (
        "p.yaml:4:16: note: SchedulingQueue a: spec.parent: whether queue 'cluster' exists is not checked: it is in no"
        " file [Parent]" in result.output
    )


def test_an_invalid_parent_is_one_error(tmp_path: Path) -> None:
    result = run(tmp_path, queues(("a", "b", 1, 2), ("b", "", 3, 2)))
    assert result.output.count("error:") == 1
    assert "note:" not in result.output


def test_two_queues_of_one_name_are_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, queues(("a", "", 1, 2), ("a", "", 1, 3)))
    assert "p.yaml:8:18: error: SchedulingQueue a: metadata.name: another queue of these files has this name" in (
        result.output
    )


KAI = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec:
  parentQueue: '%s'
  resources: {gpu: {quota: %s, limit: %s}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}
"""
VOLCANO = """apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: %s}
spec: {parent: '%s', deserved: {nvidia.com/gpu: %s}, capability: {nvidia.com/gpu: %s}}
"""


@pytest.mark.parametrize(
    ("template", "parent", "guarantee", "limit"),
    [
        pytest.param(KAI, "spec.parentQueue", "spec.resources.gpu.quota", "spec.resources.gpu.limit", id="KAI"),
        pytest.param(
            VOLCANO, "spec.parent", "spec.deserved[nvidia.com/gpu]", "spec.capability[nvidia.com/gpu]", id="Volcano"
        ),
    ],
)
def test_queues_of_other_apis_are_checked_with_their_own_fields(
    tmp_path: Path, template: str, parent: str, guarantee: str, limit: str
) -> None:
    each = [("a", "b", 1, 2), ("b", "a", 1, 2), ("c", "d", 1, 2), ("e", "", 4, 2), ("f", "e", 8, 9), ("g", "", "x", 1)]
    result = run(tmp_path, "---\n".join(template % one for one in each))
    assert result.exit_code == 1
    found = [re.sub(r"^p\.yaml:\d+:\d+: ", "", line) for line in result.output.splitlines() if line.startswith("p.")]
    uncovered = "[GuaranteesNotCovered]"
    assert found[:-1] == [
        f"error: Queue a: {parent}: queue 'b' is below this queue [Invalid]",
        f"error: Queue b: {parent}: queue 'a' is below this queue [Invalid]",
        f"note: Queue c: {parent}: whether queue 'd' exists is not checked: it is in no file [Parent]",
        f"warning: Queue e: {guarantee}: the queues right below are guaranteed 8, more than the 4 of this queue {uncovered}",
        f"warning: Queue e: {limit}: this limit of 2 is less than the guarantee of 4 {uncovered}",
    ]
    assert found[-1].startswith(f"error: Queue g: {guarantee}: ")


def test_of_queues_of_one_name_one_api_counts(tmp_path: Path) -> None:
    content = "---\n".join((KAI % ("a", "", 1, 2), VOLCANO % ("b", "a", 1, 2), *(QUEUE % ("a", "", 1, 2),)))
    result = run(tmp_path, content)
    assert result.output.splitlines()[0] == (
        "p.yaml:3:18: error: Queue a: metadata.name: a SchedulingQueue of podwright.dev has this name, and counts instead"
        " of this Queue [Twice]"
    )
    assert result.output.count("error:") == 1


def test_a_queue_of_another_group_is_no_finding(tmp_path: Path) -> None:
    assert run(tmp_path, (KAI % ("a", "a", 1, 2)).replace("run.ai", "example.com")).exit_code == 0
