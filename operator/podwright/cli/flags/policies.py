"""Flags that say what decides about pods: policies, plugins, signals and feature gates, as `podwright run` has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from podwright.api.permissions import ANY_NAME, INSTALLED_NAMESPACE, WAIT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.cli.flags.common import Flag
from podwright.kube.options.values import DIRECTORY, FEATURE_GATES, MINOR, SCHEDULER_NAMES, SIGNALS

"""Adds a flag to a command."""


def policy_flags(signals: str, when: str = "") -> Sequence[Flag]:
    """The flags about policies and their plugins. `signals`: the help of `--signals`; `when`: the condition under which
    the flags have an effect, such as "With --pod".
    """
    return (
        click.option(
            "--scheduler-name",
            default=PODWRIGHT_SCHEDULER_NAME,
            show_default=True,
            metavar="NAME",
            help=_said(
                when,
                "The schedulerName that the built-in policy serves. It also decides about pods that no policy serves.",
            ),
        ),
        click.option(
            "--allowed-scheduler-names",
            default=ANY_NAME,
            show_default=True,
            metavar=SCHEDULER_NAMES.placeholder,
            help=_said(when, "The scheduler names that policies may serve, as with `podwright run`."),
        ),
        click.option(
            "--allow-unsafe-policies",
            is_flag=True,
            help=_said(when, "Policies may disable any filter, as with `podwright run`."),
        ),
        click.option(
            "--when-policy-is-bad",
            type=click.Choice([WAIT, "default"]),
            default=WAIT,
            show_default=True,
            help=_said(
                when,
                "What happens to the pods of a policy that was never accepted, as with `podwright run`.",
            ),
        ),
        plugin_dirs(_said(when, "A directory of plugin files (*.py) that policies use.")),
        click.option(
            "--signals",
            type=click.Path(exists=True, dir_okay=False),
            metavar=SIGNALS.placeholder,
            help=_said(when, signals),
        ),
        operator_namespace(when),
    )


def plugin_dirs(text: str) -> Flag:
    """`--plugin-dir`, as `plugin_dirs`."""
    return click.option(
        "--plugin-dir",
        "plugin_dirs",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar=DIRECTORY.placeholder,
        help=f"{text} Can be repeated.",
    )


def operator_namespace(when: str = "") -> Flag:
    """`--operator-namespace`."""
    text = _said(when, "The operator's namespace, which has the ConfigMaps of `paramsFrom` of SchedulerPolicies.")
    return click.option(
        "--operator-namespace", default=INSTALLED_NAMESPACE, show_default=True, metavar="NAME", help=text
    )


def feature_gates(defaults: str) -> Flag:
    """`--feature-gates`. `defaults`: of what the others are."""
    text = f"Feature gates to change from the defaults of {defaults}."
    return click.option("--feature-gates", default="", metavar=FEATURE_GATES.placeholder, help=text)


def emulated_version(text: str, default: str = "") -> Flag:
    """`--emulated-version`. The default is shown if there is one."""
    return click.option(
        "--emulated-version", default=default, show_default=bool(default), metavar=MINOR.placeholder, help=text
    )


def _said(when: str, text: str) -> str:
    return f"{when}: {text[0].lower()}{text[1:]}" if when else text
