"""The command `podwright` (also `kubectl podwright`). Each subcommand is a module, which is imported when the
subcommand is used.

So `podwright run` starts without importing what only the others need. To add a subcommand, write the module and add it
to COMMANDS.

Every error ends the process with status 1, as kube-scheduler's errors do. Commands let errors of Podwright and of the
system pass: here they become messages.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

import click
from click.shell_completion import CompletionItem

from podwright import __version__
from podwright.cli.examples import EXAMPLES
from podwright.cli.imports import uncollected

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# NumPy's linear algebra, which is not used, would start a thread for each core, and these spin for a tenth of the
# start.

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "admission-check": (
        "podwright.cli.commands.admission_check",
        "Tell Kueue whether the pods of a Workload fit now.",
    ),
    "convert": ("podwright.cli.commands.convert", "Turn a KubeSchedulerConfiguration into SchedulerPolicies."),
    "convert-manifest": (
        "podwright.cli.commands.convert_manifest",
        "Put Podwright in the place of kube-scheduler in its static pod.",
    ),
    "demo": ("podwright.cli.demo", "Run a demo: policies place pods in a sandbox."),
    "evaluate": ("podwright.cli.commands.evaluate", "Show where a pod would go in a dumped cluster, or answer cases."),
    "explain": ("podwright.cli.commands.explain", "Explain why a pod waits, and what would help."),
    "extender": ("podwright.cli.commands.extender", "Answer a kube-scheduler as its scheduler extender."),
    "kube-scheduler": ("podwright.cli.commands.kube_scheduler", "Schedule pods in the place of kube-scheduler."),
    "plugin": ("podwright.cli.commands.plugin", "Write plugins and test them."),
    "policy": ("podwright.cli.commands.policy", "Check policies before they are applied."),
    "queues": ("podwright.cli.commands.queues", "Show the queues of teams: guarantees, shares and use."),
    "rebalance": ("podwright.cli.commands.rebalance", "Show which pods would move to better places, and stop that."),
    "record": ("podwright.cli.commands.record", "Write down how nodes and pods come and go."),
    "replay": ("podwright.cli.commands.replay", "Compare policies on the same stream of pods."),
    "run": ("podwright.cli.commands.run", "Schedule pods until SIGTERM, SIGINT or SIGQUIT."),
    "shadow": ("podwright.cli.commands.shadow", "Show what policies in shadow mode would have decided."),
    "simulate": ("podwright.cli.commands.simulate", "Show what would happen with other nodes, pods or policies."),
    "snapshot": ("podwright.cli.commands.snapshot", "Write down what scheduling in a cluster depends on."),
}
"""Subcommands with their modules, and their short help, which is shown without importing them. In the module, the click
command has the name of the subcommand, with `_` for `-`.
"""


INTERRUPTED: Final = 130
"""The status after Ctrl-C, as of a process that SIGINT ended."""


class _WrongArguments(click.ClickException):
    """A UsageError with the status of all other errors. Click's own is 2."""

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        self._error.show(file)


def _add_examples(command: click.Command, path: str) -> None:
    """Ends the help of the command, or of each of its subcommands, with its examples."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            _add_examples(each, f"{path} {name}")
    elif path in EXAMPLES:
        command.epilog = "\n".join(("\b", "Examples:", *(f"  podwright {line}" for line in EXAMPLES[path])))


@contextmanager
def _status_1() -> Iterator[None]:
    """Turns errors into messages: the system's, and our own, whose texts are for users. All others are bugs."""
    try:
        yield
    except click.UsageError as error:
        raise _WrongArguments(error) from error
    except BrokenPipeError:
        raise  # click ends the process without a message
    except Exception as error:
        is_ours = type(error).__module__.startswith("podwright.")
        if not is_ours and not isinstance(error, OSError | click.ClickException):
            raise
        from podwright.kube.log_format import printable  # noqa: PLC0415 -- only here

        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise click.ClickException("\n".join(map(printable, text.split("\n")))) from error  # it quotes files of others


class _LazyGroup(click.Group):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _status_1():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            with _status_1():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def _short_help(self) -> Mapping[str, str]:
        here = {name: command.get_short_help_str() for name, command in self.commands.items()}
        return dict(sorted({**here, **{name: text for name, (_, text) in COMMANDS.items()}}.items()))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._short_help().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=text) for name, text in self._short_help().items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(item for item in found if item.value.startswith(incomplete)), *options]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            with uncollected():
                module = importlib.import_module(COMMANDS[cmd_name][0])
            command = getattr(module, cmd_name.replace("-", "_"))
            _add_examples(command, cmd_name)
            self.add_command(command)
        return super().get_command(ctx, cmd_name)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="podwright")
def main() -> None:
    """A Kubernetes scheduler that people program instead of compile."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


if __name__ == "__main__":
    main(prog_name="podwright")
