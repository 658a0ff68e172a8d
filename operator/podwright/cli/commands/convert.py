"""`podwright convert`: SchedulerPolicies that say the same as a KubeSchedulerConfiguration file."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from podwright.api.configuration.documents import Dumper
from podwright.api.configuration.load import load_configuration
from podwright.api.converted_policies import convert as converted
from podwright.cli.flags.policies import feature_gates, plugin_dirs
from podwright.cli.printable import echo
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError
from podwright.kube.options.values import parse_feature_gates
from podwright.kube.plugins.guarded import load_in_time


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@plugin_dirs("A directory of plugin files (*.py) that the file names.")
@feature_gates("Kubernetes 1.37")
def convert(file: str, plugin_dirs: tuple[Path, ...], feature_gates: str) -> None:
    """Turn the profiles of a KubeSchedulerConfiguration FILE into SchedulerPolicies, for `kubectl apply -f -`. - reads
    standard input.

    Settings that a SchedulerPolicy cannot contain are named on standard error, with the option to use instead. If
    policies cannot express the file, the exit status is 1, and there is no output.
    """
    try:
        features = Features(parse_feature_gates(feature_gates))
        result = converted(load_configuration(_content(file)), load_in_time(plugin_dirs), features)
    except ProfileError as error:
        raise click.ClickException(f"{file}: {str(error).removeprefix(': ')}") from error
    for note in result.notes:
        echo(f"# {note}", err=True)
    click.echo(yaml.dump_all(result.policies, Dumper=Dumper, sort_keys=False), nl=False)


def _content(file: str) -> bytes:
    with click.open_file(file, "rb") as opened:
        content: bytes = opened.read()
        return content
