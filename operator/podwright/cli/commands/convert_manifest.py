"""`podwright convert-manifest`: the static pod of kube-scheduler, with Podwright in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from podwright.api.configuration.documents import Dumper, read_document
from podwright.core.framework.profile import ProfileError

_KUBE_SCHEDULER = "kube-scheduler"
_COMMAND = ["podwright", _KUBE_SCHEDULER]


@click.command("convert-manifest")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--image", required=True, help="The image of Podwright, as the container runtime pulls it.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write this file instead of standard output.",
)
def convert_manifest(file: str, image: str, output: Path | None) -> None:
    """Print the static pod in FILE with Podwright in the place of kube-scheduler. - reads standard input.

    Changes the image and the first word of the command. The container runs as root, as kube-scheduler does, unless FILE
    names a user. All else stays the same. FILE may also run Podwright already: then only the image changes. --output
    replaces the file as a whole, and only if FILE could be converted.
    """
    with click.open_file(file, "rb") as opened:
        content = opened.read()
    try:
        converted = _converted(read_document(content), image)
    except ProfileError as error:
        raise click.ClickException(f"{file}: {str(error).removeprefix(': ')}") from error
    is_json = content.lstrip().startswith(b"{")
    text = json.dumps(converted, indent=2) + "\n" if is_json else yaml.dump(converted, Dumper=Dumper, sort_keys=False)
    if output is None:
        click.echo(text, nl=False)
        return
    written = output.with_name(f".{output.name}")  # the kubelet ignores it
    written.write_text(text, encoding="utf-8")
    written.replace(output)


def _converted(pod: dict[str, Any], image: str) -> dict[str, Any]:
    """Changes the pod. Raises ProfileError if it is no pod that runs kube-scheduler."""
    if pod.get("kind") != "Pod":
        raise ProfileError("kind", f"{pod.get('kind')!r} should be 'Pod', as in a static pod")
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers, list):
        raise ProfileError("spec.containers", "expected a list of containers")
    container = next((each for each in containers if isinstance(each, dict) and _takes_over(each)), None)
    if container is None:
        raise ProfileError("spec.containers", "no container has kube-scheduler as the first word of its command")
    container["image"] = image
    # The image alone would run as another user, who may not read kube-scheduler's kubeconfig.
    security = [each.get("securityContext") or {} for each in (spec, container)]
    if not any(isinstance(each, Mapping) and ("runAsUser" in each or each.get("runAsNonRoot")) for each in security):
        spec["securityContext"] = {**security[0], "runAsUser": 0}
    return pod


def _takes_over(container: dict[str, Any]) -> bool:
    """Exchanges the first word of the command if it is kube-scheduler. Whether the container runs Podwright now."""
    for key in ("command", "args"):
        words = container.get(key)
        if isinstance(words, list) and words:
            rest = words[2:] if words[:2] == _COMMAND else words[1:]
            if words[:2] != _COMMAND and Path(str(words[0])).name != _KUBE_SCHEDULER:
                return False
            container |= {"command": [*_COMMAND, *rest]} if key == "command" else {"command": _COMMAND, "args": rest}
            return True
    return False
