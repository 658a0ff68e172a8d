"""`python -m podwright.testing`: builds the control plane's programs, or runs a control plane."""

import signal
import sys
import time
from collections.abc import Container

import click

from podwright.testing.binaries import Binaries, BinariesMissingError
from podwright.testing.build import BuildError
from podwright.testing.control_plane import DEFAULT_CONTROLLERS, ControlPlane
from podwright.testing.objects import node
from podwright.testing.processes import Process, ProcessError
from podwright.testing.versions import PROGRAMS, VersionError
from podwright.testing.workload_api import workload_api

_COMPONENTS = ("scheduler", "controllers", "kwok")


@click.group()
def main() -> None:
    """A real Kubernetes control plane on loopback, without containers."""


@main.command()
@click.argument("programs", nargs=-1, type=click.Choice(list(PROGRAMS)))
def build(programs: tuple[str, ...]) -> None:
    """Find or build PROGRAMS (by default all), and print their paths."""
    binaries = Binaries()
    for name in programs or PROGRAMS:
        click.echo(f"{name}\t{binaries.path(name)}")


@main.command()
@click.option(
    "--with", "components", multiple=True, type=click.Choice(_COMPONENTS), help="Also start this component; repeatable."
)
@click.option("--nodes", default=0, show_default=True, help="Number of nodes to create, in three zones.")
@click.option("--fsync", is_flag=True, help="Let etcd sync each write to disk.")
def up(components: tuple[str, ...], nodes: int, fsync: bool) -> None:
    """Start a control plane that serves PodGroups, print the path of its kubeconfig, and run until Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)
    binaries = Binaries()
    api = workload_api(binaries.versions.kubernetes_minor)
    with ControlPlane(binaries=binaries, fsync=fsync, **({} if api is None else api.options)) as cluster:
        _start(cluster, components, () if api is None else api.controllers)
        zones = ("zone-a", "zone-b", "zone-c")
        cluster.bulk.create(
            node(f"node-{number}", labels={"topology.kubernetes.io/zone": zones[number % 3]}) for number in range(nodes)
        )
        click.echo(
            f"Kubernetes {cluster.binaries.versions.kubernetes} on {cluster.url}; press Ctrl-C to stop", err=True
        )
        click.echo(f"kubectl: {cluster.binaries.path('kubectl')}", err=True)
        click.echo(cluster.kubeconfig)
        sys.stdout.flush()
        _wait_for_end((cluster.etcd, cluster.api_server))


def _start(cluster: ControlPlane, components: Container[str], controllers: tuple[str, ...]) -> None:
    if "scheduler" in components:
        cluster.start_scheduler()
    if "controllers" in components:
        controllers += DEFAULT_CONTROLLERS
    if controllers:
        cluster.start_controller_manager(controllers)
    if "kwok" in components:
        cluster.start_kwok()


def _wait_for_end(processes: tuple[Process, ...]) -> None:
    try:
        while all(process.alive for process in processes):
            time.sleep(0.5)
    except KeyboardInterrupt:
        click.echo("stopping", err=True)
        return
    dead = next(process for process in processes if not process.alive)
    raise ProcessError(f"{dead.name} ended unexpectedly\n{dead.log_tail()}")


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError, VersionError) as error:
        sys.exit(f"error: {error}")
