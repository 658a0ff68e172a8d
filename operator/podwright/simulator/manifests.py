"""Reads objects from YAML or JSON: manifests of pods and policies, and snapshots that are YAML. Values are those of JSON.

What YAML reads as a date stays a string. Aliases are refused, so that a small file cannot become a large object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from podwright.core.objects.raw import json_type
from podwright.kube.bounded_files import read_at_most

Raw = Mapping[str, Any]

LONGEST_MANIFEST: Final = 64 << 20
"""The largest file of manifests, in bytes."""
MAX_DEPTH: Final = 200
_Base: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class ManifestError(Exception):
    """A file of manifests is invalid. The message names the file and the place."""


class Manifest(dict[str, Any]):
    """An object with the place that it was read from, such as `pods.yaml: document 2`."""

    def __init__(self, raw: Raw, where: str) -> None:
        super().__init__(raw)
        self.where = where


def place_of(raw: Raw, otherwise: str) -> str:
    """Where the object was read from; `otherwise` if it is no manifest of a file."""
    return raw.where if isinstance(raw, Manifest) else otherwise


class _Loader(_Base):  # type: ignore[misc]  # which base, only the installation knows
    """YAML without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_manifests(path: str) -> Sequence[Manifest]:
    """The objects of a file, those of lists one by one. Raises ManifestError."""
    try:
        content = read_at_most(Path(path), LONGEST_MANIFEST, pipes=True)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error
    return parse_manifests(content, path)


def parse_manifests(content: bytes, where: str) -> Sequence[Manifest]:
    """The objects of YAML documents, or of JSON, those of lists one by one. `where` names the file in errors. Raises ManifestError."""
    found = [*_objects(documents_of(content, where), where)]
    if not found:
        raise ManifestError(f"{where}: has no objects")
    return found


def documents_of(content: bytes, where: str) -> Sequence[Any]:
    """The documents of a YAML file without empty ones. JSON is YAML, too. Raises ManifestError."""
    if content.lstrip()[:1] in (b"{", b"["):
        try:
            return [orjson.loads(content)]
        except orjson.JSONDecodeError:
            pass  # YAML in flow style, or several documents
    try:
        _check_events(content, where)
        return [each for each in yaml.load_all(content, _Loader) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: not YAML: {' '.join(str(error).split())[:300]}") from error


def _check_events(content: bytes, where: str) -> None:
    """Raises ManifestError for aliases, and for a document that is nested too deeply: libyaml would end the process."""
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        line = "" if event.start_mark is None else f"{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise ManifestError(f"{where}:{line}: aliases are not supported")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ManifestError(f"{where}:{line}: is nested more than {MAX_DEPTH} levels deep")


def _objects(documents: Sequence[Any], where: str) -> Iterator[Manifest]:
    for index, document in enumerate(documents):
        place = f"{where}: document {index + 1}" if len(documents) > 1 else where
        if not isinstance(document, Mapping):
            raise ManifestError(f"{place}: expected an object, got {json_type(document)}")
        if isinstance(document.get("items"), list) and str(document.get("kind") or "List").endswith("List"):
            for position, item in enumerate(document["items"]):
                if not isinstance(item, Mapping):
                    raise ManifestError(f"{place}: items[{position}]: expected an object, got {json_type(item)}")
                yield Manifest(item, f"{place}: items[{position}]")
        elif not isinstance(document.get("kind"), str):
            raise ManifestError(f"{place}: kind: is missing")
        else:
            yield Manifest(document, place)
