"""Flags of the commands that read a cluster from its API server: with whose credentials, and what of it."""

from __future__ import annotations

import click

from podwright.api.permissions import INSTALLED_NAMESPACE

KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="The kubeconfig, found as kubectl finds it."
)
CONTEXT = click.option("--context", help="A context of the kubeconfig, instead of the current one.")
OPERATOR_NAMESPACE = click.option(
    "--operator-namespace",
    default=INSTALLED_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The operator's namespace, which has the ConfigMaps of `paramsFrom` of SchedulerPolicies.",
)
ANNOTATIONS = click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="PATTERN",
    help="Keep annotations whose names match, for plugins and rules that read them. Can be repeated. Others are left out.",
)
