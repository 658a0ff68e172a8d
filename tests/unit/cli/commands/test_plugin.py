"""`podwright plugin new` and `podwright plugin test`."""

import re
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.kube.plugins import guarded as guarded_plugins
from podwright.policies.new_plugin import dashed
from support.objects.builders import make_node, make_pod
from support.plugins.kit import scores, verdicts


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, ["plugin", *arguments])


def test_what_new_writes_works_when_it_is_tested(run, tmp_path):
    result = run("new", "TeamNodes")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "wrote team-nodes/plugins/team_nodes.py",
        "wrote team-nodes/policy.yaml",
        "wrote team-nodes/test_policies.yaml",
        "Test it:  podwright plugin test team-nodes",
        "Run it:   podwright run --plugin-dir team-nodes/plugins, and kubectl apply -f team-nodes/policy.yaml",
    ]
    report = tmp_path / "report.xml"
    result = run("test", "team-nodes", "--junit", str(report))
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "loaded plugin TeamNodes",
        "passed team-nodes/test_policies.yaml: TeamNodes keeps pods off the nodes of other teams",
        "passed team-nodes/test_policies.yaml: a pod gets a node of its team, or one of nobody",
        "2 passed, 0 failed",
    ]
    assert 'tests="2"' in report.read_text()


@pytest.mark.parametrize("vector", [[], ["--vector"]], ids=["for each node", "vectorised"])
@pytest.mark.parametrize("flags", [["--filter"], ["--score"], ["--filter", "--score"]], ids=" ".join)
def test_a_new_plugin_filters_or_scores_and_both_versions_agree(run, tmp_path, flags, vector):
    assert run("new", "TeamNodes", *flags, *vector).exit_code == 0
    result = run("test", "team-nodes")
    assert result.exit_code == 0, result.output
    assert ("keeps pods off" in result.output, "prefers the nodes" in result.output) == tuple(each in flags for each in ("--filter", "--score"))  # fmt: skip
    names = {}
    exec((tmp_path / "team-nodes/plugins/team_nodes.py").read_text(), names)
    cache = Cache()
    for raw in (
        make_node("blue", labels={"team": "blue"}),
        make_node("red", labels={"team": "red"}),
        make_node("open"),
    ):
        cache.set_node(parse_node(raw))
    plugin = names["TeamNodes"](names["TeamNodesArgs"](), SimpleNamespace(cache=cache))
    for team in ("blue", "green"):
        pod = parse_pod(make_pod("p", labels={"team": team}))
        if "--filter" in flags and vector:
            assert [*verdicts(plugin, pod).values()].count("") == (2 if team == "blue" else 1)
        if "--score" in flags:
            best = 100 if team == "blue" else 0
            assert scores(plugin, pod) == {"blue": best, "red": 0, "open": 0}


def test_the_directory_can_be_chosen_and_be_the_current_one(run, monkeypatch, tmp_path):
    assert run("new", "Gpu2", "--directory", "a/b").exit_code == 0
    assert (tmp_path / "a/b/plugins/gpu2.py").exists()
    monkeypatch.chdir(tmp_path / "a/b")
    result = run("test")
    assert result.exit_code == 0, result.output


def test_existing_files_are_not_replaced(run, tmp_path):
    assert run("new", "TeamNodes").exit_code == 0
    path = tmp_path / "team-nodes/policy.yaml"
    path.write_text("mine")
    result = run("new", "TeamNodes")
    assert result.exit_code == 1
    assert "team-nodes/plugins/team_nodes.py exists already" in result.output
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["", "teamNodes", "Team-Nodes", "Team/../x", "../X", "X" * 100, "Tëam", "A\n"])
def test_names_that_a_plugin_cannot_have_are_refused(run, tmp_path, name):
    result = run("new", name)
    assert result.exit_code == 1
    assert "is not a name such as TeamNodes" in result.output
    assert not [*tmp_path.iterdir()]


def test_names_of_podwrights_own_plugins_are_refused(run, tmp_path):
    result = run("new", "NodeAffinity")
    assert result.exit_code == 1
    assert "'NodeAffinity' is a plugin of Podwright itself: choose another name" in result.output
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("TeamNodes", "team-nodes"), ("GPUNodes", "gpu-nodes"), ("Gpu2Nodes", "gpu2-nodes"), ("Only", "only")],
)
def test_names_of_files(name, expected):
    assert dashed(name) == expected


def test_a_plugin_that_cannot_be_loaded_is_named(run, tmp_path):
    run("new", "TeamNodes")
    (tmp_path / "team-nodes/plugins/team_nodes.py").write_text("import nothing_of_this_name")
    result = run("test", "team-nodes")
    assert result.exit_code == 1
    assert "file team-nodes/plugins/team_nodes.py: cannot be imported: ModuleNotFoundError" in result.output
    assert "(line 1)" in result.output


@pytest.mark.parametrize(
    "hangs",
    [
        "while True:\n    pass\n",
        "while True:\n    try:\n        len(())\n    except BaseException:\n        pass\n",
    ],
    ids=["it only loops", "it catches whatever it is stopped by"],
)
def test_a_plugin_whose_import_does_not_come_back_is_stopped_and_named(run, monkeypatch, tmp_path, hangs):
    monkeypatch.setattr(guarded_plugins, "LOAD_SECONDS", 0.3)
    run("new", "TeamNodes")
    path = tmp_path / "team-nodes/plugins/team_nodes.py"
    text = path.read_text()
    path.write_text(f"{text}\n{hangs}")
    result = run("test", "team-nodes")
    assert result.exit_code == 1
    lines = len(text.splitlines()) + 2, len(path.read_text().splitlines())
    (line,) = re.findall(
        r"file team-nodes/plugins/team_nodes.py: cannot be imported: PluginStoppedError: "
        r"did not return within 0.3 s, and was stopped \(line (\d+)\)",
        result.output,
    )
    assert lines[0] <= int(line) <= lines[1]


def test_a_plugin_that_decides_otherwise_fails_its_test(run, tmp_path):
    run("new", "TeamNodes")
    path = tmp_path / "team-nodes/plugins/team_nodes.py"
    path.write_text(
        path.read_text().replace("        return unresolvable", "        return None\n        return unresolvable")
    )
    result = run("test", "team-nodes")
    assert result.exit_code == 1
    assert "FAILED team-nodes/test_policies.yaml: TeamNodes keeps pods off the nodes of other teams" in result.output
    assert "1 passed, 1 failed" in result.output


def test_a_directory_without_tests_is_not_a_success(run, tmp_path):
    result = run("test", str(tmp_path))
    assert result.exit_code == 1
    assert "has no tests" in result.output


def test_tests_without_plugins_are_not_run(run, tmp_path):
    """As from the directory above that of `podwright plugin new`: each test would say that the plugin does not
    exist.
    """
    run("new", "TeamNodes", "--directory", str(tmp_path / "team-nodes"))
    result = run("test", str(tmp_path))
    assert result.exit_code == 1
    assert (
        result.output
        == f"Error: there are no plugins: no file is named {tmp_path / '*.py'} or {tmp_path / 'plugins/*.py'}\n"
    )


HANGING_TESTS = """
policies: [policy.yaml]
nodes:
  - metadata: {{name: open}}
tests:
  - name: it comes back
    pods:
      - metadata: {{name: web}}
    expect:
      web: {expected}
  - name: it comes back again
    pods:
      - metadata: {{name: web}}
    expect:
      web: {{pending: did not return}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("expected", ["open", "{node: open, rejected: {open: 'no'}}"])
def test_a_plugin_that_does_not_come_back_fails_its_test(run, tmp_path, expected):
    run("new", "TeamNodes")
    path = tmp_path / "team-nodes/plugins/team_nodes.py"
    head, _, rest = path.read_text().partition("        team = ")
    path.write_text(f"{head}        while True:\n            pass\n        team = {rest}")
    line = len(head.splitlines()) + 2
    (tmp_path / "team-nodes/test_policies.yaml").write_text(HANGING_TESTS.format(expected=expected))
    result = run("test", "team-nodes")
    assert result.exit_code == 1
    assert "FAILED team-nodes/test_policies.yaml: it comes back\n    default/web:" in result.output
    assert 'running "TeamNodes" filter plugin: ' in result.output
    stopped = (
        "plugin TeamNodes raised PluginStoppedError: did not return from filter or score within 1 s, and was stopped"
    )
    assert any(f"{stopped} (team_nodes.py, line {each}, in filter)" in result.output for each in (line - 1, line))
    assert "1 passed, 1 failed" in result.output, "the other test runs"
