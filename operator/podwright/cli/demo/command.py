"""The command line of `podwright demo`."""

from __future__ import annotations

import asyncio
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
from podwright.cli.demo.scene import Scene
from podwright.cli.demo.setting import cluster_setting, sandbox_setting
from podwright.cli.demo.stage import LiveStage, PlainStage, Stage
from podwright.cli.demo.story import Story

PICTURE_WIDTH = 124


@click.command()
@click.option(
    "--kubeconfig", type=click.Path(), help="Play on this cluster, in a namespace of its own that is removed."
)
@click.option("--context", help="Context of the kubeconfig; else its current one.")
@click.option("--nodes", type=click.IntRange(2), default=20, show_default=True, help="Nodes of the sandbox.")
@click.option("--zones", type=click.IntRange(1), default=3, show_default=True, help="Zones of the sandbox.")
@click.option("--pace", type=click.FloatRange(0), help="Seconds between two pods; 0.25 on a terminal, else 0.")
@click.option("--plain", is_flag=True, help="Plain lines, even on a terminal.")
@click.option("--picture", "target", type=click.Path(path_type=Path), help="Write the last picture to this SVG file.")
def demo(
    kubeconfig: str | None,
    context: str | None,
    nodes: int,
    zones: int,
    pace: float | None,
    *,
    plain: bool,
    target: Path | None,
) -> None:
    """See pods being placed by policies.

    Without --kubeconfig it plays in a sandbox that needs nothing but Python. Every placement is checked: the exit
    status is 1 if one is not as the policy says, or if something else went wrong.
    """
    console = Console()
    live = console.is_terminal and not plain
    scene = Scene()
    stage: Stage = LiveStage(console, scene) if live else PlainStage(console, scene)
    started = time.monotonic()
    try:
        asyncio.run(
            _play(scene, stage, (kubeconfig, context), (nodes, zones), pace if pace is not None else 0.25 * live)
        )
    except DemoError as error:
        console.print(f"[bold red]The demo failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted")
        sys.exit(130)
    if target is not None:
        target.write_text(svg(scene), encoding="utf-8")
    sys.exit(summarise(console, scene, time.monotonic() - started))


async def _play(
    scene: Scene, stage: Stage, cluster: tuple[str | None, str | None], size: tuple[int, int], pace: float
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    kubeconfig, context = cluster
    setting = cluster_setting(kubeconfig, context, stage.say) if kubeconfig else sandbox_setting(*size, stage.say)
    async with setting as where:
        with stage:
            await Story(where, scene, stage, pace).play()


def summarise(console: Console, scene: Scene, seconds: float) -> int:
    """Prints how it went; the exit status."""
    failed = [finding for finding in scene.findings if not finding.holds]
    placed = sum(bool(pod.node) for pod in scene.pods.values())
    console.print()
    what = f"{placed} pods placed, {len(scene.pods) - placed} pending, {seconds:.0f} s"
    if failed:
        console.print(f"{len(failed)} of {len(scene.findings)} expectations did not hold ({what}):", style="bold red")
        for finding in failed:
            console.print(picture.plain_finding(finding), highlight=False, markup=False, soft_wrap=True)
        return 1
    console.print(f"All {len(scene.findings)} expectations hold ({what}).", style="bold green", highlight=False)
    return 0 if scene.findings else 1


def svg(scene: Scene) -> str:
    """The last picture as SVG that loads nothing from elsewhere."""
    console = Console(
        record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(picture.final(scene))
    text = console.export_svg(title="podwright demo", theme=SVG_EXPORT_THEME)
    text = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", text)
    return text.replace("Fira Code, monospace", "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace")
