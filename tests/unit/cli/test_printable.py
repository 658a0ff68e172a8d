"""Texts of others' objects in the output of commands cannot change what a terminal shows: everything that is not
printable has an escape sequence.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.cli.printable import echo, plain
from support.objects.builders import make_policy

EVIL = "x\x1b[2J\x9b1m\u202e\u2028[red]y"
SHOWN = r"x\x1b[2J\x9b1m\u202e\u2028"


def node(name: str, **labels: str) -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "podwright", "containers": containers, **spec},
    }


def run(folder: Path, args: list[str], code: int, **files: Any) -> str:
    """The output of a command. Of the args, names of files stand for these in the folder."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8", newline="")
    known = {path.name for path in folder.iterdir()}
    result = CliRunner().invoke(main, [str(folder / arg) if arg in known else arg for arg in args])
    assert result.exit_code == code, result.output
    strange = {char for char in result.output if unicodedata.category(char)[0] in "CZ"} - {" ", "\n"}
    assert not strange
    return result.output


def cluster(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": [*items]}


def test_findings_of_lint(tmp_path):
    shown = run(tmp_path, ["policy", "lint", "p.json"], 1, p_json=make_policy(EVIL, strategy={"type": EVIL}))
    assert SHOWN in shown


def test_results_of_tests_of_policies(tmp_path):
    suite = {
        "policies": [make_policy("p")],
        "nodes": [node("a")],
        "tests": [{"name": EVIL, "pods": [pod("w")], "expect": {"w": EVIL}}],
    }
    output = run(tmp_path, ["policy", "test", "t.yaml"], 1, t_yaml=yaml.safe_dump(suite))
    assert SHOWN in output


def test_differences_between_policies(tmp_path):
    items = [node(f"a{EVIL}", tier="gold"), node("b"), pod(f"w{EVIL}"), make_policy("p")]
    rule = {"name": "r", "expression": "has(node.labels.tier)"}
    shown = run(
        tmp_path,
        ["policy", "diff", "c.json", "--new", "n.json"],
        0,
        c_json=cluster(*items),
        n_json=make_policy("p", rules={"filters": [rule]}),
    )
    assert f"w{SHOWN}" in shown
    assert f"a{SHOWN}" in shown


def test_the_evaluation_of_a_pod(tmp_path):
    items = [node(f"a{EVIL}"), node("b")]
    shown = run(tmp_path, ["evaluate", "--pod", "w.json", "c.json"], 0, c_json=cluster(*items), w_json=pod("w"))
    assert "a" + SHOWN in shown.replace("\n", "")


def test_cases_that_differ(tmp_path):
    case = {"id": f"{EVIL}/1", "nodes": [node(f"a{EVIL}")], "pod": pod("w"), "expect": {"feasible": [EVIL]}}
    shown = run(tmp_path, ["evaluate", "--check", "c.jsonl"], 1, c_jsonl=json.dumps(case))
    assert SHOWN in shown


def test_problems_and_figures_of_a_replay(tmp_path):
    nodes = "sn,cpu_milli,memory_mib,gpu,model\n" + "n0,8000,16384,2,T4\n"
    tasks = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time,scheduled_time\nt0,1000,1024,1,0,100,0\n"
    name = f"{EVIL}.yaml".replace("/", "")
    (tmp_path / name).write_text(yaml.safe_dump(make_policy("p")))
    shown = run(
        tmp_path, ["replay", "tasks.csv", "--nodes", "nodes.csv", "--policy", name], 0, nodes_csv=nodes, tasks_csv=tasks
    )
    assert SHOWN in shown
    assert "[red]" in shown


@pytest.mark.parametrize("err", [False, True])
def test_each_line_of_a_text_stays_a_line(capsys, err):
    echo("a\nb\x1bc", err=err)
    captured = capsys.readouterr()
    assert (captured.err if err else captured.out) == "a\nb\\x1bc\n"


def test_a_cell_of_a_table_has_no_markup():
    assert plain("[red]a\x07") == r"\[red]a\x07"
