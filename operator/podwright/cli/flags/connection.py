"""Flags of the commands that read a cluster from its API server: with whose credentials, and what of it."""

from __future__ import annotations

import click

from podwright.cli.flags.common import repeated, together
from podwright.cli.flags.policies import operator_namespace

KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="The kubeconfig, found as kubectl finds it."
)
CONTEXT = click.option("--context", help="A context of the kubeconfig, instead of the current one.")
AS_USER = click.option("--as", "as_user", default="", metavar="USER", help="Act as this user, as with kubectl.")
AS_GROUPS = repeated("--as-group", "as_groups", metavar="GROUP", about="With --as: a group of that user.")


with_connection = together(KUBECONFIG, CONTEXT, AS_USER, AS_GROUPS)
"""Adds the flags that name an API server, and those that name a user."""
OPERATOR_NAMESPACE = operator_namespace()
ANNOTATIONS = click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="PATTERN",
    help="Keep annotations whose names match, for plugins and rules that read them. Can be repeated. Others are left "
    "out.",
)
