"""`make profile`: where the operator's time goes under a workload, as a flame graph (SVG) and a text of the top functions.

py-spy samples it from outside; where that is not allowed (ptrace), `sampler` does so from inside.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.cluster import prepare
from benchmarks.flamegraph import flame_graph, read_stacks, top
from benchmarks.plan import resized
from benchmarks.run import RunFailed, Settings, measure
from benchmarks.schedulers import CHECKOUT, Installed, Series, podwright
from benchmarks.workloads import Workload, load
from podwright.testing import Binaries, BinariesMissingError, BuildError, ControlPlane, Process, ProcessError

_RATE = 250
_ATTACHED_S = 0.7
_ATTEMPTS = 5
_WRITTEN_S = 30


@dataclass
class PySpy:
    """py-spy beside a process, writing its stacks to a file when the process ends."""

    program: str
    target: Path
    child: "subprocess.Popen[bytes] | None" = None

    def attach(self, pid: int) -> None:
        """Begin. Raises click.ClickException if it will not: the process may not be looked into."""
        command = [self.program, "record", "--pid", str(pid), "--rate", str(_RATE), "--function", "--nonblocking"]
        command += ["--format", "raw", "--output", str(self.target)]
        for _ in range(_ATTEMPTS):  # at first the process is not yet the Python program that it will be
            time.sleep(_ATTACHED_S / 2)
            self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(_ATTACHED_S)
                continue
            return
        raise click.ClickException("py-spy cannot look into processes here; try --sampler")

    def finish(self) -> None:
        """Wait until the stacks are written, after the process has ended."""
        if self.child is not None:
            self.child.wait(_WRITTEN_S)


def py_spy() -> str | None:
    """py-spy, if it is installed and may look into a process that is not its child."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        return None
    idle = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(idle, stdout=subprocess.PIPE) as probe:
        assert probe.stdout is not None
        probe.stdout.readline()
        looked = subprocess.run([program, "dump", "--pid", str(probe.pid)], capture_output=True, check=False)
        probe.kill()
    return program if looked.returncode == 0 else None


def _watched(spy: PySpy, arguments: tuple[str, ...]) -> Series:
    plain = podwright(arguments)

    def start(cluster: ControlPlane, installed: Installed) -> Process:
        process = plain.start(cluster, installed)
        spy.attach(process.pid)
        return process

    return Series(plain.name, start)


def _sampled(target: Path, arguments: tuple[str, ...]) -> Series:
    return podwright(
        arguments, program=("-m", "benchmarks.sampler", str(target)), environ={"PYTHONPATH": str(CHECKOUT)}
    )


def profile(
    workload: Workload, settings: Settings, arguments: tuple[str, ...], folder: Path, *, spy: str | None
) -> Path:
    """Run it, and write NAME.svg, NAME.txt and NAME.stacks to `folder`; the path of the first. Raises RunFailed."""
    binaries = Binaries()
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{workload.name}-{workload.size}-{'backlog' if settings.backlog else 'live'}"
    stacks = stem.with_suffix(".stacks")
    stacks.write_text("")
    finish: Callable[[], None] = lambda: None  # noqa: E731
    if spy:
        watcher = PySpy(spy, stacks)
        series, finish = _watched(watcher, arguments), watcher.finish
    else:
        series = _sampled(stacks, arguments)
    with tempfile.TemporaryDirectory(prefix="podwright-bench-") as data:
        prepared = prepare(workload, Path(data), binaries, backlog=settings.backlog)
        figures = measure(series, prepared, settings, binaries)
    finish()
    samples = read_stacks(stacks.read_text().splitlines())
    if not samples:
        raise RunFailed("the profiler has seen nothing")
    title = (
        f"{workload.title}, {settings.mode}, by {'py-spy' if spy else 'the sampler inside'}: "
        f"{sum(samples.values())} samples of busy threads, {figures['cpu_ms_per_pod']:.2f} ms of CPU a pod"
    )
    stem.with_suffix(".svg").write_text(flame_graph(samples, title))
    stem.with_suffix(".txt").write_text(f"{title}\n{top(samples)}")
    return stem.with_suffix(".svg")


@click.command()
@click.option("--workload", "name", default="SchedulingBasic", show_default=True)
@click.option("--size", default="1000Nodes", show_default=True)
@click.option("--nodes", type=int, help="So many nodes, whatever the workload's file says.")
@click.option("--pods", type=int, help="So many measured pods.")
@click.option("--mode", type=click.Choice(["backlog", "live"]), default="backlog", show_default=True)
@click.option("--rate", default=0.0, help="Pods a second in live mode; 0: as fast as they are taken.")
@click.option("--podwright-argument", "arguments", multiple=True, help="A further argument of `podwright run`.")
@click.option("--sampler", is_flag=True, help="Sample from inside, even if py-spy can be used.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).parent / "results" / "profiles",
    help="The folder for the files.",
)
def main(
    name: str,
    size: str,
    nodes: int | None,
    pods: int | None,
    mode: str,
    rate: float,
    arguments: tuple[str, ...],
    sampler: bool,
    output: Path,
) -> None:
    """Profile the operator under a workload of the benchmark."""
    found = [each for each in load() if (each.name, each.size) == (name, size)]
    if not found:
        raise click.UsageError(f"there is no workload {name} of size {size}")
    spy = None if sampler else py_spy()
    if spy is None and not sampler:
        click.echo("py-spy is not there or may not look into processes: sampling from inside", err=True)
    settings = Settings(mode == "backlog", rate)
    written = profile(resized(found[0], nodes, pods), settings, arguments, output, spy=spy)
    click.echo(written.with_suffix(".txt").read_text())
    click.echo(f"flame graph: {written}")


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError, RunFailed) as error:
        sys.exit(f"error: {error}")
