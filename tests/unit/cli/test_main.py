"""Wrong arguments are errors like any other: exit status 1, in every command."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from podwright.cli.main import main

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


def test_without_a_command_the_help_is_shown():
    done = run()
    assert done.exit_code == 1
    assert "Commands:" in done.stderr
