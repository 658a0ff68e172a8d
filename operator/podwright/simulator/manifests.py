"""Reads objects from YAML or JSON: manifests of pods and policies, and snapshots that are YAML. Values are those of
JSON.

What YAML reads as a date stays a string. Aliases are copies of what they stand for, as for kubectl; what they add is
bounded, so that a small file cannot become a large object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw, json_type
from podwright.kube.bounded_files import read_at_most

LONGEST_MANIFEST: Final = 64 << 20
"""The largest file of manifests, in bytes."""
MAX_DEPTH: Final = 200
MAX_ALIASED: Final = 100_000
"""The most values that the aliases of a file may add to it."""
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
    """The objects of YAML documents, or of JSON, those of lists one by one. `where` names the file in errors. Raises
    ManifestError.
    """
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
        has_aliases = _check_events(content, where)
        found = [each for each in yaml.load_all(content, _Loader) if each is not None]
        return [*map(_unshared, found)] if has_aliases else found
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: not YAML: {' '.join(str(error).split())[:300]}") from error


def _unshared(value: Any) -> Any:
    """A copy of a document in which each alias has values of its own."""
    if isinstance(value, dict):
        return {key: _unshared(each) for key, each in value.items()}
    return [*map(_unshared, value)] if isinstance(value, list) else value


@dataclass(slots=True)
class _Part:
    """An open list or map of a document: its anchor, if it has one, how many values it has, and how many levels."""

    anchor: str | None
    values: int = 1
    levels: int = 1


def _check_events(content: bytes, where: str) -> bool:
    """True if the documents have aliases. Raises ManifestError for aliases that add too much, and for a document that
    is nested too deeply: libyaml would end the process.
    """
    has_aliases, aliased = False, 0
    parts: list[_Part] = []
    anchors: dict[str | None, _Part | None] = {}
    for event in yaml.parse(content, Loader=_Loader):
        place = where if event.start_mark is None else f"{where}:{event.start_mark.line + 1}"
        done = _Part(None, levels=0)
        if isinstance(event, yaml.CollectionStartEvent):
            parts.append(_Part(event.anchor))
            anchors |= {event.anchor: None} if event.anchor else {}
        elif isinstance(event, yaml.AliasEvent):
            has_aliases = True
            found = anchors.get(event.anchor, done)
            if found is None:
                raise ManifestError(f"{place}: the alias *{event.anchor} is inside of what it stands for")
            done, aliased = found, aliased + found.values
            if aliased > MAX_ALIASED:
                raise ManifestError(f"{place}: the aliases add more than {MAX_ALIASED:,} values")
        elif isinstance(event, yaml.CollectionEndEvent):
            done = parts.pop()
            anchors |= {done.anchor: done} if done.anchor else {}
        elif isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
        elif isinstance(event, yaml.ScalarEvent) and event.anchor:
            anchors[event.anchor] = done
        if len(parts) + done.levels > MAX_DEPTH:
            raise ManifestError(f"{place}: is nested more than {MAX_DEPTH} levels deep")
        if parts and not isinstance(event, yaml.CollectionStartEvent):
            parts[-1].values += done.values
            parts[-1].levels = max(parts[-1].levels, done.levels + 1)
    return has_aliases


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
