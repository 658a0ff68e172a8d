"""The commands of docs/explain.md work, and print what the page shows."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explain.md").read_text()
SHOWN = re.findall(r"^ {4}podwright (explain [^\n]*)\n\n```\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^ {4}podwright (explain .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.chdir(ROOT)

    def explain(command):
        result = CliRunner().invoke(main, shlex.split(command))
        assert result.exit_code == 0, result.output
        return result.stdout

    return explain


@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_the_output_is_the_one_on_the_page(run, command, shown):
    assert run(command) == shown


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_works(run, command):
    output = run(command)
    if "-o json" in command:
        assert json.loads(output)["causes"]
    elif "-o yaml" in command:
        assert yaml.safe_load(output)["causes"]


def test_the_page_lists_every_field_and_state():
    fields = json.loads(
        CliRunner()
        .invoke(main, shlex.split(f"explain pod/web-0 -n shop -o json {ROOT}/examples/explain/cluster.yaml"))
        .stdout
    )
    known = {"kind", "name", "policy", "message", "nodes", "feasible", "events"}
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert fields.keys() - known <= listed
    assert len(SHOWN) == 2
