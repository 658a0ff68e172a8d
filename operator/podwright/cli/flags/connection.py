"""Flags of the commands that read a cluster from its API server: with whose credentials, and what of it."""

from __future__ import annotations

import click

from podwright.cli.flags.policies import operator_namespace

KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="The kubeconfig, found as kubectl finds it."
)
CONTEXT = click.option("--context", help="A context of the kubeconfig, instead of the current one.")
OPERATOR_NAMESPACE = operator_namespace()
ANNOTATIONS = click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="PATTERN",
    help="Keep annotations whose names match, for plugins and rules that read them. Can be repeated. Others are left out.",
)
