"""`podwright convert`: SchedulerPolicies that say the same as a KubeSchedulerConfiguration file."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from podwright.api.configuration.load import load_configuration
from podwright.api.converted_policies import convert as converted
from podwright.cli.printable import echo
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.kube.option_values import DIRECTORY, FEATURE_GATES, OptionsError, parse_feature_gates
from podwright.kube.plugins.guarded import load_in_time


@click.command(short_help="Turn a KubeSchedulerConfiguration into SchedulerPolicies.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar=DIRECTORY.placeholder,
    help="A directory of plugin files (*.py) that the file names. Can be repeated.",
)
@click.option(
    "--feature-gates",
    default="",
    metavar=FEATURE_GATES.placeholder,
    help="Feature gates to change from the defaults of Kubernetes 1.37.",
)
def convert(file: str, plugin_dirs: tuple[Path, ...], feature_gates: str) -> None:
    """Turn the profiles of a KubeSchedulerConfiguration FILE into SchedulerPolicies, for `kubectl apply -f -`. - reads standard input.

    What is not part of a SchedulerPolicy goes to standard error, with the option to use instead. A file that cannot be expressed is an
    error: exit status 1, and no output.
    """
    try:
        features = Features(parse_feature_gates(feature_gates))
        result = converted(load_configuration(_content(file)), load_in_time(plugin_dirs), features)
    except ProfileError as error:
        raise click.ClickException(f"{file}: {str(error).removeprefix(': ')}") from error
    except (OptionsError, OSError, RegistryError) as error:
        raise click.ClickException(str(error)) from error
    for note in result.notes:
        echo(f"# {note}", err=True)
    click.echo(yaml.safe_dump_all(result.policies, sort_keys=False), nl=False)


def _content(file: str) -> bytes:
    with click.open_file(file, "rb") as opened:
        content: bytes = opened.read()
        return content
