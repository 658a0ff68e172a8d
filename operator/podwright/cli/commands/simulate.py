"""`podwright simulate`: what would happen with other nodes, pods or policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from podwright.api.scheduler_policy import KIND
from podwright.cli.flags.cluster import cluster_of, namespace_in, with_cluster, with_gathering, with_picture
from podwright.cli.flags.common import file_to_read, files_to_read, output_format, repeated
from podwright.cli.printable import printable_texts, write
from podwright.cli.reports.simulation import each_node_report, report
from podwright.core.objects.raw import Raw
from podwright.engine.view.rebalance_picture import PictureOptions
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, parse_scale
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.manifests import ManifestError, read_manifests
from podwright.simulator.racks_picture import picture_of_result
from podwright.simulator.simulation import simulate as run_simulation
from podwright.simulator.simulation import simulate_each_node

EMPTIED_BY_DEFAULT: Final = 100
_NO_CHANGE: Final = Hypothesis(
    policies=[],
    remove_policies=[],
    objects=[],
    set_fields=[],
    add_nodes=[],
    remove_nodes=[],
    drain=[],
    scale=[],
    pods=[],
)


@click.command()
@with_cluster
@click.option(
    "--add-nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Add N nodes, copied from --like or described by --node-template.",
)
@click.option("--like", metavar="NODE", help="The node that --add-nodes copies, with the pods of its DaemonSets.")
@file_to_read("--node-template", about="A manifest of a Node for --add-nodes.")
@repeated("--remove-node", "remove_nodes", metavar="NODE", about="Remove this node.")
@repeated("--drain", "drain", metavar="NODE", about="Drain this node, as `kubectl drain --ignore-daemonsets` does.")
@files_to_read("--policy", "policies", about="SchedulerPolicies, in place of those of the same name.")
@repeated("--remove-policy", "remove_policies", metavar="NAME", about="Remove this SchedulerPolicy.")
@files_to_read("--pods", "pods", about="Further pods, or workloads with a template, and their claims.")
@files_to_read("-f", "--file", "changed", about="Objects in place of those of the same name, such as SchedulingQueues.")
@repeated(
    "--set",
    "set_fields",
    metavar="queue/NAME/FIELD=VALUE",
    about="Change a field of a queue: queue/ml/nvidia.com/gpu/limit=64 or queue/ml/state=Hold.",
)
@repeated(
    "--scale", "scale", metavar="KIND/NAME=N", about="Give a workload N pods: deploy/x=50, or deploy/namespace/x=50."
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="The namespace of --scale. Without this flag that of the kubeconfig's context, as for kubectl; in FILES, "
    "`default`.",
)
@click.option(
    "--each-node", type=click.Choice(["drain", "remove"]), help="Instead: try this with each node on its own."
)
@click.option(
    "--empty",
    "try_to_empty",
    type=click.IntRange(min=0),
    default=EMPTIED_BY_DEFAULT,
    show_default=True,
    metavar="N",
    help="How many nodes to try to empty afterwards, the least used first.",
)
@click.option(
    "--serve",
    is_flag=True,
    help="Instead: serve an HTTP API that tries hypotheses on the cluster. See docs/simulate.md.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8089",
    show_default=True,
    metavar="HOST:PORT",
    help="With --serve: the address. If it is not on loopback, --token-file is required.",
)
@file_to_read("--token-file", about="With --serve: requests need the token in this file.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="N",
    help="With --serve: how long one request may take.",
)
@with_gathering
@click.option("--seed", type=int, default=0, show_default=True, help="Decides among nodes with equal scores.")
@with_picture("Draw the nodes of the cluster before and after, as SVG.")
@output_format("table", "wide", "json", "yaml", about="The output format. `wide` also lists each node that changes.")
def simulate(
    *,
    output: str,
    each_node: Any,
    try_to_empty: int,
    seed: int,
    serve: bool,
    listen: str,
    token_file: str | None,
    seconds: float,
    picture: str | None,
    rack: str,
    resource: str,
    **values: Any,
) -> None:
    """Show where pods would go with other nodes, pods, policies or queues, what stays pending and why.

    Reads the cluster from FILES (see `podwright snapshot`), or from its API server with your own permissions. Changes
    nothing. Pending pods are scheduled as well.
    """
    if serve:
        from podwright.cli.processes import simulation_server  # noqa: PLC0415 -- only here

        simulation_server.serve(lambda: cluster_of(dict(values)), listen, token_file, seconds)
        return
    if values["scale"]:
        source = (values[name] for name in ("files", "kubeconfig", "context"))
        values["namespace"] = namespace_in(values["namespace"], *source)
    cluster = cluster_of(values)
    hypothesis = _hypothesis(values)
    if each_node:
        if hypothesis != _NO_CHANGE:
            raise click.UsageError("--each-node excludes the flags that change the cluster")
        _each_node(cluster, each_node, seed, output)
        return
    result = run_simulation(cluster, hypothesis, seed=seed, try_to_empty=try_to_empty)
    if picture is not None:
        Path(picture).write_text(picture_of_result(cluster, result, PictureOptions(resource, [rack])))
    if output in ("json", "yaml"):
        write(result.as_dict(), output)
    else:
        for line in report(printable_texts(result), wide=output == "wide"):
            click.echo(line)


def _each_node(cluster: LoadedCluster, action: Any, seed: int, output: str) -> None:
    results = [*simulate_each_node(cluster, action, seed=seed)]
    if output in ("json", "yaml"):
        write({"action": action, "nodes": [result.as_dict() for result in results]}, output)
        return
    for line in each_node_report(action, printable_texts(results), wide=output == "wide"):
        click.echo(line)


def _hypothesis(values: dict[str, Any]) -> Hypothesis:
    """The hypothesis that the flags describe. Raises HypothesisError, ManifestError and UsageError."""
    policies: list[Raw] = []
    objects: list[Raw] = []
    pods: list[Raw] = []
    for path in values["policies"]:
        policies += read_manifests(path)
    for path in values["changed"]:
        for raw in read_manifests(path):
            (policies if raw.get("kind") == KIND else objects).append(raw)
    for path in values["pods"]:
        for raw in read_manifests(path):
            (pods if _makes_pods(raw) else objects).append(raw)
    return Hypothesis(
        policies=policies,
        remove_policies=[*values["remove_policies"]],
        objects=objects,
        set_fields=[*values["set_fields"]],
        add_nodes=_added_nodes(values),
        remove_nodes=[*values["remove_nodes"]],
        drain=[*values["drain"]],
        scale=[parse_scale(text, values["namespace"]) for text in values["scale"]],
        pods=pods,
    )


def _makes_pods(raw: Any) -> bool:
    spec = raw.get("spec")
    return raw.get("kind") == "Pod" or (isinstance(spec, dict) and "template" in spec)


def _added_nodes(values: dict[str, Any]) -> list[AddedNodes]:
    count, like, template = values["add_nodes"], values["like"], values["node_template"]
    if count is None:
        if like or template:
            raise click.UsageError("--like and --node-template need --add-nodes")
        return []
    if bool(like) == bool(template):
        raise click.UsageError("--add-nodes needs either --like or --node-template")
    if like:
        return [AddedNodes(count, like)]
    (raw, *others) = read_manifests(template)
    if others or raw.get("kind") != "Node":
        raise ManifestError(f"{template}: expected one manifest of kind Node")
    return [AddedNodes(count, template=raw)]
