"""Flags of the commands that read a cluster: from snapshots, or from its API server; and what decides about policies in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from podwright.api.configuration.signals import Signals
from podwright.api.permissions import WAIT, PolicySettings
from podwright.cli.flags.common import Flag, together
from podwright.cli.flags.connection import AS_GROUPS, AS_USER
from podwright.cli.flags.policies import emulated_version, feature_gates, policy_flags
from podwright.core.framework.features import NEWEST_MINOR, OLDEST_MINOR
from podwright.core.objects.resources import CPU
from podwright.core.objects.wording import first_of
from podwright.kube.client.credentials.credentials import namespace_of
from podwright.kube.client.errors import ConfigError
from podwright.kube.log_format import one_line
from podwright.kube.options.values import DURATION, MINOR, SCHEDULER_NAMES, SIGNALS, parse_feature_gates
from podwright.kube.plugins.guarded import load_in_time
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.loaded import LoadedCluster, LoadOptions, features_of, load
from podwright.simulator.snapshot import Snapshot, read_snapshot

SHOWN_PROBLEMS: Final = 10
"""How many problems with objects are listed."""

_SOURCE: Final = (
    click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True)),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Without FILES: the kubeconfig, found as kubectl finds it.",
    ),
    click.option("--context", help="Without FILES: a context of the kubeconfig, instead of the current one."),
    AS_USER,
    AS_GROUPS,
)  # fmt: skip
_POLICIES: Final = (
    *policy_flags(
        "The file of `podwright run --signals`. Without FILES, its sources are asked once, from here. A snapshot has "
        "the numbers that "
        "`podwright snapshot --signals` wrote down. Nodes without a number have the default."
    ),
    feature_gates("the cluster's version"),
    emulated_version(
        f"Use the feature gates of this version, from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, not those of the cluster's."
    ),
)


with_source = together(*_SOURCE)
"""Adds the argument FILES and the flags that say which API server to read without them."""
with_cluster = together(*_SOURCE, *_POLICIES)
"""Adds the argument FILES and all these flags to a command. Pass their values to `cluster_of`."""
with_policies = together(*_POLICIES)
"""Adds the flags about policies alone. Pass their values to `load_options`."""
with_gathering = click.option(
    "--gather-after",
    default="0s",
    show_default=True,
    metavar=DURATION.placeholder,
    help="When room is held for pod groups of queues whose gatherAfter says nothing, as with `podwright run`.",
)
"""Adds a flag to a command that has the flags about policies."""


def with_picture(what: str) -> Flag:
    """Adds the flags of a picture of racks. `what`: the help of --picture."""
    rack = "The node label whose values are the racks of the picture."
    return together(
        click.option("--picture", type=click.Path(dir_okay=False), metavar="FILE", help=what),
        click.option("--rack", default="", metavar="LABEL", help=rack),
        click.option("--resource", default=CPU, show_default=True, help="The resource that the picture shows."),
    )


def namespace_in(given: str | None, files: Sequence[str], kubeconfig: str | None, context: str | None) -> str:
    """The namespace of the command: the given one, or else that of the kubeconfig's context, as for kubectl. `default`
    if no kubeconfig can be read; the error appears when the cluster is read.
    """
    if given or files:
        return given or "default"
    try:
        return namespace_of(kubeconfig, context)
    except (ConfigError, OSError):
        return "default"


def cluster_of(values: dict[str, Any]) -> LoadedCluster:
    """The cluster that the flags name; takes their values out of `values`. Problems go to standard error. Raises
    what reading, and policies and plugins, raise.
    """
    (cluster,) = clusters_of(values, lambda snapshot: (snapshot,))
    return cluster


def clusters_of(values: dict[str, Any], variants: Callable[[Snapshot], Sequence[Snapshot]]) -> Sequence[LoadedCluster]:
    """The clusters that are made of the snapshot that the flags name, as `cluster_of`. The problems are those of the
    last one.
    """
    files, connection = values.pop("files"), connection_of(values)
    snapshot = read_snapshot(files) if files else snapshot_of(connection)
    options = load_options(values, snapshot)
    clusters = [load(variant, options) for variant in variants(snapshot)]
    _report(clusters[-1])
    return clusters


def connection_of(values: dict[str, Any], *, messages: bool = False) -> LiveConnection:
    """Takes the values of the flags about the API server out of `values`. Raises OptionsError."""
    return LiveConnection(
        **{name: values.pop(name) for name in ("kubeconfig", "context", "as_user", "as_groups")},
        messages=messages,
        operator_namespace=values["operator_namespace"],
        signals=defined_signals(values["signals"]),
    )


def load_options(values: dict[str, Any], snapshot: Snapshot | None = None) -> LoadOptions:
    """Takes the values of the flags about policies out of `values`. Raises OptionsError, RegistryError and OSError."""
    names = (
        "scheduler_name",
        "allowed_scheduler_names",
        "allow_unsafe_policies",
        "when_policy_is_bad",
        "plugin_dirs",
        "signals",
        "operator_namespace",
        "feature_gates",
        "emulated_version",
    )
    own = {name: values.pop(name) for name in names}
    gates, emulated = parse_feature_gates(own["feature_gates"]), own["emulated_version"]
    return LoadOptions(
        features=features_of(snapshot, gates, MINOR.parse(emulated) if emulated else None),
        classes=load_in_time(own["plugin_dirs"]),
        settings=PolicySettings(
            scheduler_name=own["scheduler_name"],
            allowed_scheduler_names=SCHEDULER_NAMES.parse(own["allowed_scheduler_names"]),
            allow_unsafe=own["allow_unsafe_policies"],
            waits_for_bad_policies=own["when_policy_is_bad"] == WAIT,
            asks_extenders=False,
            signals=defined_signals(own["signals"]),
            namespace=own["operator_namespace"],
        ),
        gather_after=DURATION.parse(values.pop("gather_after", "0s")),
    )


def defined_signals(file: str | None) -> Signals:
    """Reads the file of the flag --signals. Raises OptionsError."""
    return SIGNALS.parse(file).signals if file else {}


def _report(cluster: LoadedCluster) -> None:
    for line in first_of((f"Problem: {each}" for each in cluster.problems), SHOWN_PROBLEMS, "problem"):
        click.echo(one_line(line), err=True)
    if cluster.ignored:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(cluster.ignored.items()))
        click.echo(one_line(f"Left out, because scheduling does not depend on them: {kinds}"), err=True)
