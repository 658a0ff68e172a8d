"""`make profile`: profiles the operator under a workload, and writes a flame graph (SVG) and the top functions (text).

py-spy samples the process from outside. Where ptrace is not allowed, `sampler` samples it from inside.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import pathsep
from pathlib import Path

import click

from benchmarks.flamegraph import flame_graph, read_stacks, top
from benchmarks.measurement import RunFailed, Settings, measure
from benchmarks.prepared_cluster import prepare
from benchmarks.run_plan import resized
from benchmarks.schedulers import CHECKOUT, Installed, Series, podwright, with_rules
from benchmarks.workloads import Workload, load
from podwright.testing import Binaries, BinariesMissingError, BuildError, ControlPlane, Process, ProcessError

_SAMPLES_PER_S = 250
_ATTACH_TIMEOUT_S = 0.7
_ATTEMPTS = 5
_WRITE_TIMEOUT_S = 30


@dataclass
class PySpy:
    """py-spy attached to a process. It writes the stacks to a file when the process ends."""

    program: str
    target: Path
    child: "subprocess.Popen[bytes] | None" = None

    def attach(self, pid: int) -> None:
        """Start sampling. Raises click.ClickException if py-spy may not attach to the process."""
        command = [
            self.program,
            "record",
            "--pid",
            str(pid),
            "--rate",
            str(_SAMPLES_PER_S),
            "--function",
            "--nonblocking",
        ]
        command += ["--format", "raw", "--output", str(self.target)]
        for _ in range(_ATTEMPTS):  # just after the fork the process does not run Python yet
            time.sleep(_ATTACH_TIMEOUT_S / 2)
            self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(_ATTACH_TIMEOUT_S)
                continue
            return
        raise click.ClickException("py-spy cannot attach to processes here; try --sampler")

    def finish(self) -> None:
        """Wait until py-spy has written the stacks, after the process has ended."""
        if self.child is not None:
            self.child.wait(_WRITE_TIMEOUT_S)


def py_spy() -> str | None:
    """The path of py-spy, or None if it is missing or may not attach to a process that is not its child."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        return None
    idle = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(idle, stdout=subprocess.PIPE) as probe:
        assert probe.stdout is not None
        probe.stdout.readline()
        dump = subprocess.run([program, "dump", "--pid", str(probe.pid)], capture_output=True, check=False)
        probe.kill()
    return program if dump.returncode == 0 else None


def _with_py_spy(spy: PySpy, arguments: tuple[str, ...]) -> Series:
    plain = podwright(arguments)

    def start(cluster: ControlPlane, installed: Installed) -> Process:
        process = plain.start(cluster, installed)
        spy.attach(process.pid)
        return process

    return Series(plain.name, start)


def _with_sampler(target: Path, arguments: tuple[str, ...]) -> Series:
    return podwright(
        arguments,
        program=("-m", "benchmarks.sampler", str(target)),
        environ={"PYTHONPATH": f"{CHECKOUT}{pathsep}{CHECKOUT / 'operator'}"},
    )


def _nothing() -> None:
    """Without py-spy, nothing is to be finished."""


def profile(
    workload: Workload,
    settings: Settings,
    arguments: tuple[str, ...],
    folder: Path,
    *,
    spy: str | None,
    rules: bool = False,
) -> Path:
    """Run the workload, and write NAME.svg, NAME.txt and NAME.stacks to `folder`. Returns NAME.svg. Raises RunFailed.

    `rules`: under a policy with rules in CEL.
    """
    binaries = Binaries()
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{workload.name}-{workload.size}-{'backlog' if settings.backlog else 'live'}"
    stacks = stem.with_suffix(".stacks")
    stacks.write_text("")
    finish: Callable[[], None] = _nothing
    if spy:
        watcher = PySpy(spy, stacks)
        series, finish = _with_py_spy(watcher, arguments), watcher.finish
    else:
        series = _with_sampler(stacks, arguments)
    if rules:
        series = with_rules(series, series.name)
    with tempfile.TemporaryDirectory(prefix="podwright-bench-") as data:
        prepared = prepare(workload, Path(data), binaries, backlog=settings.backlog)
        figures = measure(series, prepared, settings, binaries)
    finish()
    samples = read_stacks(stacks.read_text().splitlines())
    if not samples:
        raise RunFailed("the profiler took no samples")
    title = (
        f"{workload.title}, {settings.mode}, by {'py-spy' if spy else 'the built-in sampler'}: "
        f"{sum(samples.values())} samples of busy threads, {figures['cpu_ms_per_pod']:.2f} ms of CPU per pod"
    )
    stem.with_suffix(".svg").write_text(flame_graph(samples, title))
    stem.with_suffix(".txt").write_text(f"{title}\n{top(samples)}")
    return stem.with_suffix(".svg")


@click.command()
@click.option("--workload", "name", default="SchedulingBasic", show_default=True)
@click.option("--size", default="1000Nodes", show_default=True)
@click.option("--nodes", type=int, help="Number of nodes; overrides the workload's file.")
@click.option("--pods", type=int, help="Number of measured pods; overrides the workload's file.")
@click.option("--mode", type=click.Choice(["backlog", "live"]), default="backlog", show_default=True)
@click.option(
    "--rate", default=0.0, help="Pods created per second in live mode; 0: as fast as the API server accepts them."
)
@click.option(
    "--podwright-argument", "arguments", multiple=True, help="An extra argument for `podwright run`. Repeatable."
)
@click.option("--rules", is_flag=True, help="Apply the policy with rules in CEL of the series podwright_rules.")
@click.option("--sampler", is_flag=True, help="Use the built-in sampler, even if py-spy works.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).parent / "results" / "profiles",
    help="The folder for the output files.",
)
def main(
    name: str,
    size: str,
    nodes: int | None,
    pods: int | None,
    mode: str,
    rate: float,
    arguments: tuple[str, ...],
    rules: bool,
    sampler: bool,
    output: Path,
) -> None:
    """Profile the operator under a benchmark workload."""
    found = [each for each in load() if (each.name, each.size) == (name, size)]
    if not found:
        raise click.UsageError(f"there is no workload {name} of size {size}")
    spy = None if sampler else py_spy()
    if spy is None and not sampler:
        click.echo("py-spy is missing or may not attach to processes: using the built-in sampler", err=True)
    settings = Settings(mode == "backlog", rate)
    written = profile(resized(found[0], nodes, pods), settings, arguments, output, spy=spy, rules=rules)
    click.echo(written.with_suffix(".txt").read_text())
    click.echo(f"flame graph: {written}")


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError, RunFailed) as error:
        sys.exit(f"error: {error}")
