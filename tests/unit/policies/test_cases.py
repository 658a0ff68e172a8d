"""`podwright policy test`, and the same files run by pytest."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podwright.cli.main import main
from podwright.policies.junit import junit

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[3] / "examples/policy-tests"
SUITE = """\
nodes:
  - metadata: {name: a, labels: {tier: gold}}
  - metadata: {name: b, labels: {tier: silver}}
policies:
  - metadata: {name: gold}
    spec: {rules: {filters: [{name: tier, expression: "node.labels['tier'] == 'gold'", message: other tier}]}}
tests:
  - name: one
    pods:
      - metadata: {name: web}
    expect:
      web: %s
"""


def run(folder: Path, content: str, *flags: str) -> Result:
    (folder / "t.yaml").write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(main, ["policy", "test", "t.yaml", *flags])


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param("a", id="the node"),
        pytest.param("[b, a]", id="one of several nodes"),
        pytest.param("{node: a, policy: gold, rejected: {b: other tier}}", id="node, policy and the rejected node"),
        pytest.param("{rejected: {b: tier}}", id="a rejection alone"),
    ],
)
def test_a_test_passes_if_everything_is_as_expected(tmp_path: Path, expected: str) -> None:
    result = run(tmp_path, SUITE % expected)
    assert (result.exit_code, result.output) == (0, "passed t.yaml: one\n1 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        pytest.param("b", "default/web: is on a, and should be on b", id="another node"),
        pytest.param("{pending: x}", "default/web: is on a, and should be pending: x", id="pending"),
        pytest.param("{policy: other}", "default/web: policy gold@0 decided, and should be other", id="another policy"),
        pytest.param("{rejected: {a: x}}", "default/web: node a is feasible, and should be rejected: x", id="feasible"),
        pytest.param("{rejected: {b: x}}", "node b is rejected: node(s) other tier", id="another reason"),
        pytest.param("{rejected: {c: x}}", "default/web: there is no node c", id="no such node"),
    ],
)
def test_a_test_fails_and_says_what_is_different(tmp_path: Path, expected: str, difference: str) -> None:
    result = run(tmp_path, SUITE % expected)
    assert result.exit_code == 1
    assert difference.replace("node(s) ", "") in result.output.replace("node(s) ", "")
    assert result.output.endswith("0 passed, 1 failed\n")


QUEUED = """\
nodes:
  - metadata: {name: a, labels: {gpu: h100}}
objects:
  - apiVersion: podwright.dev/v1alpha1
    kind: SchedulingQueue
    metadata: {name: ml}
    spec: {flavors: [{name: h100, nodeSelector: {gpu: h100}, resources: {cpu: {limit: 4}}}]}
tests:
  - name: one
    pods:
      - metadata: {name: web, labels: {podwright.dev/queue: ml}}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}
      - metadata: {name: more, labels: {podwright.dev/queue: ml}}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}
      - metadata: {name: free}
    expect: %s
"""


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        pytest.param("{web: {node: a, queue: ml, flavor: h100}}", "", id="both"),
        pytest.param("{more: {pending: ml holds 3 of 4, queue: ml}}", "", id="of a pod that waits"),
        pytest.param("{web: {queue: web}}", "web: is in queue ml, and should be in web", id="another queue"),
        pytest.param("{free: {queue: ml}}", "free: is in no queue, and should be in ml", id="no queue"),
        pytest.param("{web: {flavor: a100}}", "web: counts in h100, and should count in a100", id="another flavor"),
        pytest.param("{free: {flavor: h100}}", "free: counts in no flavor, and should count in h100", id="no flavor"),
    ],
)
def test_a_test_may_expect_the_queue_and_the_flavor(tmp_path: Path, expected: str, difference: str) -> None:
    result = run(tmp_path, QUEUED % expected)
    assert result.exit_code == (1 if difference else 0), result.output
    assert difference in result.output


def test_later_pods_see_the_earlier_ones_and_messages_of_pending_pods_count(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["policy", "test", str(EXAMPLE / "test_policies.yaml")])
    assert result.output.endswith("2 passed, 0 failed\n"), result.output
    wrong = (EXAMPLE / "test_policies.yaml").read_text().replace("1 Insufficient cpu,", "2 Insufficient cpu,")
    wrong = wrong.replace("[policies.yaml]", f"[{EXAMPLE / 'policies.yaml'}]")
    message = "default/second: is pending: 0/3 nodes are available: 1 Insufficient cpu"
    assert message in run(tmp_path, wrong).output


def test_a_policy_that_is_not_accepted_fails_the_test(tmp_path: Path) -> None:
    result = run(tmp_path, (SUITE % "a").replace("other tier", "''").replace("node.labels['tier']", "node.lables"))
    assert result.exit_code == 1
    assert "policy gold: spec.rules.filters[0].expression: line 1, column 5: undefined field 'lables'" in result.output


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("tests: []", "t.yaml: tests:", id="no tests"),
        pytest.param("tests: [{name: a, nods: []}]", "t.yaml: tests[0].nods:", id="an unknown field"),
        pytest.param("tests: [{name: a, pods: [{}], expect: {}}]", "tests[0].pods[0].metadata.name:", id="no name"),
        pytest.param(
            "tests: [{name: a, expect: {p: a}}]", "tests[0].expect: the test has no pod default/p", id="no pod"
        ),
        pytest.param(
            "tests: [{name: a, pods: [{metadata: {name: p}}]}]", "tests[0].expect: is missing", id="no expect"
        ),
        pytest.param("policies: [none.yaml]\ntests: [{name: a}]", "policies[0]: none.yaml: No such file", id="no file"),
        pytest.param("tests: [", "t.yaml: not YAML", id="no YAML"),
        pytest.param(SUITE % "{nodes: a}", "tests[0].expect.web: expected a node", id="an unknown expectation"),
        pytest.param(SUITE % "{pending: 3}", "tests[0].expect.web.pending:", id="a wrong type"),
    ],
)
def test_files_that_are_no_tests_are_refused_by_file_and_field(tmp_path: Path, content: str, problem: str) -> None:
    result = run(tmp_path, content)
    assert result.exit_code == 1
    assert problem in result.output


def test_results_are_written_as_junit(tmp_path: Path) -> None:
    assert run(tmp_path, SUITE % "b", "--junit", "r.xml").exit_code == 1
    (suite,) = ET.parse(tmp_path / "r.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("t.yaml", "1", "1")
    (failure,) = suite.iter("failure")
    assert failure.text == "default/web: is on a, and should be on b"
    assert "a\N{REPLACEMENT CHARACTER}b" in junit({"f": [("a\x00b", ["\ud800"])]})


def test_pytest_runs_the_tests_of_such_files(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", test_policies=SUITE % "b", other="a: 1")
    pytester.makefile(".policies.yaml", test_more=SUITE % "a")
    pytester.path.joinpath("test_bad.policies.yaml").write_text("tests: 1")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    result = pytester.runpytest(
        "-p", "no:podwright", "-p", "podwright.policies.pytest_plugin", "--continue-on-collection-errors"
    )
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*test_bad.policies.yaml: tests: *", "*default/web: is on a, and should be on b"])


def test_a_policy_in_shadow_mode_is_tested_as_if_it_enforced(tmp_path: Path) -> None:
    result = run(tmp_path, (SUITE % "{node: a, policy: gold}").replace("spec: {rules", "spec: {mode: Shadow, rules"))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("content", ["tests: []\n", "nodes: []\n", SUITE.partition("tests:")[0]])
def test_a_file_without_tests_fails(tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.yaml").write_text(content)
    found = CliRunner().invoke(main, ["policy", "test", str(tmp_path / "empty.yaml")])
    assert (found.exit_code, "empty.yaml: tests: is missing or empty" in found.output) == (1, True)


@pytest.mark.parametrize(
    ("time", "problem"), [("2026-01-15T22:30:00Z", ""), ("2026-01-15T12:00:00Z", "is pending"), ("noon", "time: ")]
)
def test_a_test_says_what_time_it_is(tmp_path: Path, time: str, problem: str) -> None:
    rule = "node.name == 'a' && now.getHours('UTC') >= 22"
    (tmp_path / "night.yaml").write_text(
        f"time: '2026-01-15T12:00:00Z'\nnodes: [{{metadata: {{name: a}}}}]\n"
        f'policies: [{{metadata: {{name: p}}, spec: {{rules: {{filters: [{{name: night, expression: "{rule}"}}]}}}}}}]\n'
        f"tests: [{{name: night, time: '{time}', pods: [{{metadata: {{name: web}}}}], expect: {{web: a}}}}]\n"
    )
    found = CliRunner().invoke(main, ["policy", "test", str(tmp_path / "night.yaml")])
    assert (found.exit_code, problem in found.output) == (1 if problem else 0, True), found.output
