"""`podwright rebalance`: which moves RebalancePolicies would make, and the switch that stops them all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from podwright.api.rebalance_policy import REBALANCE_KIND, parse_rebalance_policy
from podwright.cli.flags.cluster import cluster_of, with_cluster, with_picture
from podwright.cli.flags.common import files_to_read, output_format
from podwright.cli.flags.connection import with_connection
from podwright.cli.printable import printable_texts, write
from podwright.cli.reports.rebalance import plan_lines
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.raw import Raw
from podwright.core.rebalance.rules import RebalanceRules
from podwright.engine.process.solving import solve
from podwright.engine.process.steps import at_once
from podwright.engine.view.rebalance_picture import PictureOptions, picture_of
from podwright.kube.client.errors import status_of
from podwright.kube.client.media_types import MERGE_PATCH
from podwright.kube.kinds import REBALANCE_POLICY
from podwright.simulator.live import LiveConnection
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.manifests import read_manifests
from podwright.simulator.rebalance import plan_of

if TYPE_CHECKING:
    from podwright.kube.client.http import Http


@click.group()
def rebalance() -> None:
    """Show which pods would move to better places, and stop that."""


@rebalance.command()
@with_cluster
@files_to_read("--policy", "policies", about="RebalancePolicies, instead of those of the cluster.")
@output_format("table", "wide", "json", about="The output format. `wide` lists all steps.")
@with_picture("Draw the nodes before and after the plan, as SVG. With several policies, of the first.")
def plan(
    *, policies: tuple[str, ...], output: str, picture: str | None, rack: str, resource: str, **values: Any
) -> None:
    """Show the moves that each RebalancePolicy would make now, each proved by a decision of the scheduler.

    Reads the cluster from FILES (see `podwright snapshot`), or from its API server with your own permissions. Changes
    nothing. The mode of a policy does not matter.
    """
    namespace = values["operator_namespace"]
    cluster = cluster_of(values)
    plans = [plan_of(cluster, rules, namespace, solve) for rules in _rules(cluster, policies)]
    if picture is not None:
        drawn = picture_of(cluster.cache, plans[0], cluster.pending.get, PictureOptions(resource, [rack]))
        Path(picture).write_text(at_once(drawn))
    if output == "json":
        write({"plans": [each.as_dict() for each in plans]})
        return
    for number, each in enumerate(plans):
        if number:
            click.echo()
        for line in plan_lines(printable_texts(each), wide=output == "wide"):
            click.echo(line)


def _rules(cluster: LoadedCluster, files: Sequence[str]) -> Sequence[RebalanceRules]:
    """Raises ClickException, InvalidObjectError and ManifestError."""
    given: Sequence[Raw] = [raw for path in files for raw in read_manifests(path)]
    raws = given or [*cluster.rebalance_objects.values()]
    if not raws:
        raise click.ClickException(f"there is no {REBALANCE_KIND}; name a file of one with --policy")
    return [parse_rebalance_policy(raw) for raw in raws]


@rebalance.command()
@with_connection
def stop(**values: Any) -> None:
    """Set the mode of all RebalancePolicies to Stop: no move begins any more, and no place is held.

    Pods that have been evicted already are scheduled like any others. Needs the rights to list and patch the policies.
    """
    connection = LiveConnection(**values)
    try:
        names, problems = asyncio.run(_stop_all(connection))
    except ClusterError as error:
        if status_of(error) != 404:
            raise
        names, problems = [], []
    for name in names:
        click.echo(f"rebalancepolicy {name} stopped")
    if problems:
        raise click.ClickException("\n".join(problems))
    if not names:
        click.echo(f"There is no {REBALANCE_KIND}.")


async def _stop_all(connection: LiveConnection) -> tuple[Sequence[str], Sequence[str]]:
    """See `stop_all`. Raises ClusterError, ConfigError and OSError."""
    from podwright.kube.client.http import Http  # noqa: PLC0415 -- the library takes long

    http = Http(connection.credentials())
    try:
        return await stop_all(http)
    finally:
        await http.close()


async def stop_all(http: Http) -> tuple[Sequence[str], Sequence[str]]:
    """Stops all RebalancePolicies. Returns the names of those that stopped, and why others did not. Raises ClusterError
    if they cannot be listed.
    """
    found = await http.call("GET", REBALANCE_POLICY.collection)
    names, problems = list[str](), list[str]()
    for name in (str(raw["metadata"]["name"]) for raw in found["items"]):
        try:
            await http.call("PATCH", REBALANCE_POLICY.path(name), {"spec": {"mode": "Stop"}}, MERGE_PATCH)
        except ClusterError as error:
            if status_of(error) != 404:  # it was deleted meanwhile
                problems.append(f"rebalancepolicy {name}: {error}")
        else:
            names.append(name)
    return names, problems
