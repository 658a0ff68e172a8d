"""Every snippet of docs/writing-a-plugin.md is in the file that it names, and every link leads to a file."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.core.framework.interface import ScorePlugin
from podwright.engine.plugins.loading import load_plugins

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "writing-a-plugin.md"
TEXT = GUIDE.read_text()
SNIPPET = re.compile(
    r"(?:^\[`(?P<file>\S+)`\]\(\.\./(?P=file)\)\n)?^```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL | re.MULTILINE
)
"""A snippet below a link to its file."""
SNIPPETS = [(m["file"], m["language"], m["text"]) for m in SNIPPET.finditer(TEXT)]


@pytest.mark.parametrize(
    "file, text", [pytest.param(f, t, id=f"snippet {i} of {f}") for i, (f, _, t) in enumerate(SNIPPETS)]
)
def test_a_snippet_is_part_of_its_file(file, text):
    assert file is not None, f"this snippet names no file:\n{text}"
    assert dedent(text) in dedent((ROOT / file).read_text()) or text in (ROOT / file).read_text()


def test_the_guide_has_snippets():
    assert len(SNIPPETS) > 8


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (GUIDE.parent / target).exists()] == []


def node(name, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


@pytest.mark.parametrize(
    ("namespace", "policy", "feasible"),
    [
        pytest.param("playground", "team-nodes", {"open", "web"}, id="a pod that the policy takes"),
        pytest.param("production", "built-in-default", {"open", "web", "ml"}, id="everybody else's pods"),
    ],
)
def test_the_first_plugin_runs_with_the_policy_beside_it(tmp_path, namespace, policy, feasible):
    """Just these two snippets, copied from the guide, and no other file."""
    (_, _, plugin), (_, _, manifest) = SNIPPETS[:2]
    (tmp_path / "team_nodes.py").write_text(plugin)
    nodes = [node("open"), node("web", team="web"), node("ml", team="ml")]
    labels = {"kubernetes.io/metadata.name": namespace}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    dump = {"kind": "List", "items": [*nodes, space, yaml.safe_load(manifest)]}
    (tmp_path / "cluster.json").write_text(json.dumps(dump))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asking", "namespace": namespace, "labels": {"team": "web"}},
        "spec": {"schedulerName": "podwright", "containers": [{"name": "c", "image": "i"}]},
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    arguments = [
        "--plugin-dir",
        tmp_path,
        "--pod",
        tmp_path / "pod.json",
        "--output",
        "json",
        tmp_path / "cluster.json",
    ]
    done = CliRunner().invoke(main, ["evaluate", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["policy"]["name"] == policy
    assert "policiesNotAccepted" not in answer
    assert {name for name, found in answer["nodes"].items() if found["feasible"]} == feasible


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_only_plugins_with_scores_have_a_weight(path):
    folders = [ROOT / "examples" / "complete", ROOT / "examples" / "src" / "podwright_examples"]
    classes = load_plugins(folders)
    policies = [each for each in yaml.safe_load_all(path.read_text()) if each.get("kind") == "SchedulerPolicy"]
    for point in (point for each in policies for point in (each["spec"].get("plugins") or {}).values()):
        weighted = [entry["name"] for entry in point.get("enabled", ()) if "weight" in entry]
        assert [name for name in weighted if not issubclass(classes[name], ScorePlugin)] == []
