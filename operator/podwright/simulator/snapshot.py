"""Snapshot: everything about a cluster that scheduling depends on, as plain objects.

`podwright snapshot` writes one; the lists that `kubectl get … -o json` prints are snapshots, too. `live` takes one from
an API server, `loaded` makes a cluster of it that can be simulated. The file is a v1 List, with a field `podwright`
that says when it was taken and which kinds are missing. It holds no secrets: see `redaction`.
"""

from __future__ import annotations

import datetime
import gzip
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import KIND
from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.pod_group import APIS, NAMED_OTHERWISE
from podwright.core.objects.pod_group import KIND as GROUP_KIND
from podwright.core.objects.raw import Raw, json_type, mapping_at
from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.kube.client.json_text import innermost_open, loads
from podwright.kube.kinds import Resource
from podwright.simulator.manifests import ManifestError, documents_of

if TYPE_CHECKING:
    from podwright.kube.node_signals.numbers import Numbers


LONGEST_SNAPSHOT: Final = 4 << 30
"""The largest file in bytes of JSON, after it is unpacked."""
FIELD: Final = "podwright"
_EXPECTED: Final = "expected the output of podwright snapshot or of kubectl get … -o json"


CLAIM_TEMPLATE: Final = Resource(
    "ResourceClaimTemplate", "resource.k8s.io", "v1", "resourceclaimtemplates", namespaced=True
)
"""Not watched: only tools make claims of templates."""
NOT_DUMPED: Final = "the dump has none"
"""The reason for missing a kind of which an output of kubectl has no object: the cluster may have some."""
NOT_SERVED: Final = "the API server does not serve it"
"""The reason for missing a kind of which there can be no objects."""


class SnapshotError(Exception):
    """A snapshot cannot be read or taken. The message names the file or the server, and the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """See the module. `objects` have `apiVersion` and `kind`.

    `missing`: the kinds that are missing, each with the reason. `taken_at`: seconds since the epoch, None if not known.
    `minor`: the API server's minor version, None if not known. `signals`: the numbers of signals, by signal and node.
    """

    objects: Sequence[Raw]
    missing: Mapping[str, str] = field(default_factory=dict)
    taken_at: float | None = None
    minor: int | None = None
    signals: Numbers = field(default_factory=dict)

    def of_kind(self, kind: str) -> Iterable[Raw]:
        return (raw for raw in self.objects if raw.get("kind") == kind)

    def dump(self) -> bytes:
        """The snapshot as a file's content: JSON, in UTF-8."""
        about: dict[str, Any] = {"missing": dict(self.missing)}
        if self.taken_at is not None:
            about["takenAt"] = datetime.datetime.fromtimestamp(self.taken_at, datetime.UTC).isoformat()
        if self.minor is not None:
            about["minor"] = self.minor
        if self.signals:
            about["signals"] = self.signals
        return orjson.dumps(
            {"apiVersion": "v1", "kind": "List", "metadata": {}, FIELD: about, "items": list(self.objects)}
        )


def write_snapshot(snapshot: Snapshot, path: str) -> None:
    """Writes a file, packed if its name ends with `.gz`, or standard output for `-`. Raises OSError."""
    content = snapshot.dump()
    if path == "-":
        sys.stdout.buffer.write(content + b"\n")
    else:
        Path(path).write_bytes(gzip.compress(content, 6) if path.endswith(".gz") else content)


def read_snapshot(paths: Sequence[str]) -> Snapshot:
    """The objects of all files together; `-` is standard input. Files may be packed with gzip. Raises SnapshotError and
    OSError.
    """
    found = [parse_snapshot(_content(path), "standard input" if path == "-" else path) for path in paths]
    times = [each.taken_at for each in found if each.taken_at is not None]
    objects = [raw for each in found for raw in each.objects]
    return Snapshot(
        objects=objects,
        missing={
            **({} if times else dict.fromkeys(_not_dumped(objects), NOT_DUMPED)),
            **{kind: why for each in found for kind, why in each.missing.items()},
        },
        taken_at=max(times, default=None),
        minor=next((each.minor for each in found if each.minor is not None), None),
        signals={name: numbers for each in found for name, numbers in each.signals.items()},
    )


def _not_dumped(objects: Sequence[Raw]) -> Iterable[str]:
    """The kinds on which scheduling depends and of which there is no object. Only our own snapshots say why."""
    found = {str(raw["kind"]) for raw in objects}
    found |= {
        group_kind(str(raw.get("apiVersion") or "").partition("/")[0]) for raw in objects if raw["kind"] == GROUP_KIND
    }
    wanted = (
        *(watched.kind for watched in WATCHED_KINDS),
        *(group_kind(api) for api in APIS.values() if api not in NAMED_OTHERWISE),
        KIND,
        LOCAL_KIND,
        CLAIM_TEMPLATE.kind,
    )
    queues = (QUEUE_KIND,) if any(_names_queue(raw) for raw in objects) else ()
    return (kind for kind in (*wanted, *queues) if kind not in found)


def _names_queue(raw: Raw) -> bool:
    """True if the label of a pod or a namespace names a queue."""
    return raw["kind"] in ("Pod", "Namespace") and QUEUE_LABEL in mapping_at(raw, "metadata", "labels")


def group_kind(api: str) -> str:
    """The name under which `Snapshot.missing` has the PodGroups of this API."""
    return f"{GROUP_KIND}.{api}"


def _content(path: str) -> bytes:
    if path == "-":
        content = sys.stdin.buffer.read(LONGEST_SNAPSHOT + 1)
    else:
        with Path(path).open("rb") as file:
            content = file.read(LONGEST_SNAPSHOT + 1)
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(content, path)
    if len(content) > LONGEST_SNAPSHOT:
        raise SnapshotError(f"{path}: is larger than {LONGEST_SNAPSHOT >> 30} GiB")
    return content


def _unpacked(content: bytes, path: str) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        unpacked = unpacker.decompress(content, LONGEST_SNAPSHOT + 1)
    except zlib.error as error:
        raise SnapshotError(f"{path}: cannot be unpacked: {error}") from error
    if not unpacker.eof and len(unpacked) <= LONGEST_SNAPSHOT:
        raise SnapshotError(f"{path}: cannot be unpacked: the file is cut off")
    return unpacked


def parse_snapshot(content: bytes, where: str) -> Snapshot:
    """A snapshot in JSON or, if it does not begin like JSON, in YAML. `where` names it in errors. Raises
    SnapshotError.
    """
    raw = _parsed(content, where)
    if not isinstance(raw, Mapping):
        raise SnapshotError(f"{where}: expected an object, got {json_type(raw)}: {_EXPECTED}")
    if "items" not in raw:
        if isinstance(raw.get("kind"), str) and "metadata" in raw:
            return Snapshot(objects=[raw])  # kubectl get of one object
        raise SnapshotError(f"{where}: items: is missing: {_EXPECTED}")
    items = raw["items"]
    if not isinstance(items, list):
        raise SnapshotError(f"{where}: items: expected a list, got {json_type(items)}: {_EXPECTED}")
    about = mapping_at(raw, FIELD)
    missing, minor = about.get("missing"), about.get("minor")
    return Snapshot(
        objects=[*_objects(items, raw, where)],
        missing={str(kind): str(why) for kind, why in missing.items()} if isinstance(missing, Mapping) else {},
        taken_at=_time(about.get("takenAt"), where),
        minor=minor if isinstance(minor, int) else None,
        signals=_numbers(about.get("signals"), where),
    )


def _numbers(raw: Any, where: str) -> Numbers:
    """Raises SnapshotError."""
    if raw is None:
        return {}
    here = f"{where}: {FIELD}.signals"
    if not isinstance(raw, Mapping):
        raise SnapshotError(f"{here}: expected an object, got {json_type(raw)}")
    found: dict[str, dict[str, float]] = {}
    for name, numbers in raw.items():
        if not isinstance(numbers, Mapping):
            raise SnapshotError(f"{here}.{name}: expected an object, got {json_type(numbers)}")
        for node, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise SnapshotError(f"{here}.{name}.{node}: expected a number, got {json_type(number)}")
        found[str(name)] = {str(node): float(number) for node, number in numbers.items()}
    return found


def _objects(items: Sequence[Any], parent: Raw, where: str) -> Iterable[Raw]:
    """The items. Those of a typed list of the API server, such as a PodList, get the kind that they lack."""
    kind, version = str(parent.get("kind") or ""), parent.get("apiVersion")
    own = {"apiVersion": version, "kind": kind.removesuffix("List")} if kind not in ("List", "") else {}
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise SnapshotError(f"{where}: items[{index}]: expected an object, got {json_type(item)}")
        if isinstance(item.get("items"), list) and str(item.get("kind") or "").endswith("List"):
            yield from _objects(item["items"], item, f"{where}: items[{index}]")
            continue
        found = item if item.get("kind") else {**own, **item}
        if not isinstance(found.get("kind"), str):
            raise SnapshotError(f"{where}: items[{index}].kind: is missing")
        yield found


def _time(value: object, where: str) -> float | None:
    try:
        return parse_time(value, f"{FIELD}.takenAt")
    except InvalidObjectError as error:
        raise SnapshotError(f"{where}: {error}") from error


def _parsed(content: bytes, where: str) -> Any:
    text = content.lstrip()
    if not text:
        raise SnapshotError(f"{where}: is empty: {_EXPECTED}")
    if text[:1] not in b"{[":
        return _yaml(content, where)
    try:
        return loads(content)
    except orjson.JSONDecodeError as error:
        if innermost_open(content):
            raise SnapshotError(f"{where}: is cut off after {len(content):,} bytes: {error}") from error
        raise SnapshotError(f"{where}: not JSON: {error}: {_EXPECTED}") from error


def _yaml(content: bytes, where: str) -> Any:
    try:
        documents = documents_of(content, where)
    except ManifestError as error:
        raise SnapshotError(f"{error}: {_EXPECTED}") from error
    return documents[0] if len(documents) == 1 else {"kind": "List", "items": documents}
