"""The command line of `podwright demo`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import signal
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.terminal_theme import SVG_EXPORT_THEME

from podwright.cli.demo import picture
from podwright.cli.demo.api import DemoError
from podwright.cli.demo.display import Display, LiveDisplay, PlainDisplay
from podwright.cli.demo.environment import DemoEnvironment, cluster_environment, sandbox_environment
from podwright.cli.demo.scenario import Scenario
from podwright.cli.demo.state import DemoState

PICTURE_WIDTH = 124


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(),
    metavar="FILE",
    help="Run on this cluster, in a new namespace that is removed at the end.",
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig. Default: the current context.")
@click.option("--nodes", type=click.IntRange(2), default=20, show_default=True, help="Number of nodes in the sandbox.")
@click.option("--zones", type=click.IntRange(1), default=3, show_default=True, help="Number of zones in the sandbox.")
@click.option(
    "--pace",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Seconds between pods. Default: 0.25 on a terminal, otherwise 0.",
)
@click.option("--page", is_flag=True, help="Show the operator's page, and keep it after the demo until Ctrl-C.")
@click.option("--plain", is_flag=True, help="Print plain lines, even on a terminal.")
@click.option(
    "--picture",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the final picture to this SVG file.",
)
def demo(
    kubeconfig: str | None,
    context: str | None,
    nodes: int,
    zones: int,
    pace: float | None,
    *,
    page: bool,
    plain: bool,
    target: Path | None,
) -> None:
    """Run a demo: policies place pods in a sandbox.

    The sandbox needs only Python. With --kubeconfig the demo runs on a cluster. It checks every placement: the exit
    status is 1 if a placement contradicts its policy, or if anything else goes wrong.
    """
    console = Console()
    live = console.is_terminal and not plain
    state = DemoState()
    display: Display = LiveDisplay(console, state) if live else PlainDisplay(console, state)
    started = time.monotonic()
    try:
        asyncio.run(
            _run(
                state,
                display,
                (kubeconfig, context),
                (nodes, zones),
                pace if pace is not None else 0.25 * (live or page),
                page=page,
            )
        )
    except DemoError as error:
        console.print(f"[bold red]The demo failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted.")
        sys.exit(130)
    if target is not None:
        target.write_text(svg(state), encoding="utf-8")
    sys.exit(summarise(console, state, time.monotonic() - started))


async def _run(
    state: DemoState,
    display: Display,
    cluster: tuple[str | None, str | None],
    size: tuple[int, int],
    pace: float,
    *,
    page: bool,
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    kubeconfig, context = cluster
    environment = (
        cluster_environment(kubeconfig, context, display.say) if kubeconfig else sandbox_environment(*size, display.say)
    )
    async with environment as prepared:
        with display:
            if page:
                display.say(_about_page(prepared))
            await Scenario(prepared, state, display=display, pace=pace).run()
        if page and prepared.page:
            display.say(f"The page stays open until Ctrl-C: {prepared.page}")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()


def _about_page(prepared: DemoEnvironment) -> str:
    if prepared.page:
        return f"The page: {prepared.page}"
    return (
        "The page is that of the installed operator: kubectl port-forward its port 10259, and open "
        "https://localhost:10259/page/"
    )


def summarise(console: Console, state: DemoState, seconds: float) -> int:
    """Prints the outcome and returns the exit status."""
    failed = [result for result in state.results if not result.holds]
    placed = sum(bool(pod.node) for pod in state.pods.values())
    console.print()
    totals = f"{placed} pods placed, {len(state.pods) - placed} pending, {seconds:.0f} s"
    if failed:
        console.print(f"{len(failed)} of {len(state.results)} checks failed ({totals}):", style="bold red")
        for result in failed:
            console.print(picture.plain_result(result), highlight=False, markup=False, soft_wrap=True)
        return 1
    console.print(f"All {len(state.results)} checks passed ({totals}).", style="bold green", highlight=False)
    return 0 if state.results else 1


def svg(state: DemoState) -> str:
    """The final picture as a self-contained SVG."""
    console = Console(
        record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(picture.final(state))
    text = console.export_svg(title="podwright demo", theme=SVG_EXPORT_THEME)
    text = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", text)
    return text.replace("Fira Code, monospace", "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace")
