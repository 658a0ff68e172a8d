"""Wrong arguments are errors like any other: exit status 1, in every command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.simulator.snapshot import SnapshotError
from support.objects.builders import make_node, make_pod

COMMANDS = main.list_commands(click.Context(main))


def run(*arguments):
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_ends_every_command_with_status_1(command):
    done = run(command, "--nonsense")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "No such option" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nonsense"], "No such command 'nonsense'", id="unknown command"),
        pytest.param(["--nonsense"], "No such option", id="unknown flag before the command"),
        pytest.param(["convert"], "Missing argument 'FILE'", id="missing argument"),
        pytest.param(["convert", "/nonexistent"], "'/nonexistent' does not exist", id="missing file to convert"),
        pytest.param(["convert", "--plugin-dir"], "requires an argument", id="flag without its value"),
        pytest.param(["evaluate", "/nonexistent"], "/nonexistent", id="missing file to evaluate"),
        pytest.param(["evaluate", "--pod", "/nonexistent"], "'/nonexistent' does not exist", id="missing pod"),
        pytest.param(["extender", "--address=nonsense"], "nonsense", id="invalid value"),
    ],
)
def test_wrong_arguments_end_with_status_1(arguments, message):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    "error, message",
    [
        pytest.param(SnapshotError("node \x1b[2J"), "Error: node \\x1b[2J\n", id="ours"),
        pytest.param(PermissionError(13, "is denied", "f"), "Error: [Errno 13] is denied: 'f'\n", id="the system's"),
        pytest.param(ValueError("a bug"), "", id="a bug"),
        pytest.param(BrokenPipeError(32, "a pipe"), "", id="nobody reads"),
    ],
)
def test_errors_are_messages_unless_they_are_bugs(monkeypatch, error, message):
    def fail(*_):
        raise error

    monkeypatch.setattr("podwright.cli.commands.snapshot.snapshot_of", fail)
    done = run("snapshot")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", message)
    assert isinstance(done.exception, SystemExit) == (type(error) is not ValueError)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("from podwright.cli.main import main; sys.argv = ['podwright', '--help']; main()", id="help"),
        pytest.param(
            "from podwright.cli.completion import complete; sys.argv = ['podwright', 'q']; complete()", id="completion"
        ),
    ],
)
def test_commands_are_listed_without_being_imported(program):
    check = "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"{check}\n{program}"], capture_output=True, text=True, check=True)
    assert "Show the queues of teams: guarantees, shares and use.\n" in done.stdout
    assert done.stdout.endswith("\nFalse\n")


def test_no_client_is_imported_for_files():
    program = """
import sys
from podwright.cli.main import main
for command in ("evaluate", "explain", "policy", "queues", "rebalance", "replay", "simulate", "snapshot"):
    main.get_command(None, command)
    if found := {"aiohttp", "kubernetes"} & sys.modules.keys():
        sys.exit(f"{command} imports {found}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_without_a_command_the_help_is_shown():
    done = run()
    assert done.exit_code == 1
    assert "Commands:" in done.stderr


def leaves(command, path=""):
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from leaves(command.get_command(click.Context(command), name), f"{path} {name}".strip())
    else:
        yield path, command


LEAVES = {path: command for path, command in leaves(main) if path != "version"}


@pytest.mark.parametrize("path", LEAVES)
def test_each_help_ends_with_examples_that_can_be_parsed(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = run(*path.split(), "--help").stdout
    examples = [line.strip() for line in shown.partition("Examples:\n")[2].splitlines()]
    assert examples
    for example in examples:
        words = shlex.split(example.partition(" | ")[0])
        assert words[: 1 + len(path.split())] == ["podwright", *path.split()]
        for word in words:
            if word in ("team-nodes", "plugins"):
                (tmp_path / word).mkdir(exist_ok=True)
            elif re.search(r"\.(yaml|json|jsonl|conf)(\.gz)?$", word):
                (tmp_path / word).touch()
        LEAVES[path].make_context(path, words[1 + len(path.split()) :]).close()


def test_after_ctrl_c_the_status_is_130(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("podwright.cli.commands.snapshot.snapshot_of", interrupt)
    done = run("snapshot")
    assert (done.exit_code, done.stdout) == (130, "")


@pytest.mark.parametrize("variable, styled", [("", True), ("1", False)])
def test_with_no_color_nothing_is_bold(monkeypatch, tmp_path, variable, styled):
    monkeypatch.setenv("NO_COLOR", variable)
    items = [{"apiVersion": "v1", "kind": "Node", **make_node("a")}, {"apiVersion": "v1", "kind": "Pod", **make_pod("p")}]  # fmt: skip
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": items}))
    done = CliRunner().invoke(main, ["simulate", str(tmp_path / "cluster.json")], color=True)
    assert done.exit_code == 0, done.output
    assert ("\x1b[1m" in done.stdout) == styled
