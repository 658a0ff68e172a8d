"""The fields and types of the watched kinds, from the OpenAPI document of Kubernetes: api_schema.json.

    python -m support.objects.api_schema FILE    # writes api_schema.json again, from api/openapi-spec/swagger.json

A type is a name (`string`, `int32`, `time`, ...), `#` and the name of a definition, a list with the type of its items,
an object with the types of its fields, or an object with the single key `*` and the type of its values.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
KINDS = frozenset(
    [
        "Pod",
        "Node",
        "Namespace",
        "Service",
        "ReplicationController",
        "ReplicaSet",
        "StatefulSet",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "VolumeAttachment",
        "PodDisruptionBudget",
        "DeviceClass",
        "ResourceSlice",
        "ResourceClaim",
        "DeviceTaintRule",
        "PriorityClass",
        "Lease",
        "PodGroup",
    ]
)
_PREFIX = "io.k8s."
_FORMATS = {"date-time": "time", "int-or-string": "int-or-string"}


@cache
def definitions() -> dict[str, Any]:
    """Types by the names of their definitions."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def definition_of(kind: str) -> str:
    """The name of a kind's definition; of the newest version, if there are several."""
    return "#" + max(name for name in definitions() if name.rpartition(".")[2] == kind)


def extracted(document: dict[str, Any]) -> dict[str, Any]:
    """The definitions of KINDS, and all that they refer to."""
    found: dict[str, Any] = {}

    def add(reference: str) -> str:
        name = reference.rpartition("/")[2]
        short = name.removeprefix(_PREFIX)
        if short not in found:
            found[short] = None
            source = document["definitions"][name]
            fields = source.get("properties")
            found[short] = {f: type_of(s) for f, s in sorted(fields.items())} if fields else type_of(source)
        return f"#{short}"

    def type_of(source: dict[str, Any]) -> Any:
        if "$ref" in source:
            return add(source["$ref"])
        match source.get("type"):
            case "array":
                return [type_of(source["items"])]
            case "object" if "additionalProperties" in source:
                return {"*": type_of(source["additionalProperties"])}
            case "string":
                return _FORMATS.get(source.get("format", ""), "string")
            case "integer":
                return source.get("format", "int64")
            case "boolean" | "number" as simple:
                return simple
        return "any"

    for name, source in document["definitions"].items():
        names = {(known["kind"], known["version"]) for known in source.get("x-kubernetes-group-version-kind", ())}
        if any(kind in KINDS and (version == "v1" or kind == "PodGroup") for kind, version in names):
            add(name)
    return found


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(extracted(source).items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
