"""Bounds of the size of a SchedulerPolicy: the cost to check and to keep a policy is proportional to its size.

The API server checks the bounds of lists and strings, which are in the schema. The bounds of plugin arguments are here,
the others with the fields in scheduler_policy.py. The operator checks them as well, after the bounds of the whole spec,
which no schema can express.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_SPEC_BYTES: Final = 128 * 1024
"""The largest spec as JSON. `status.lastAccepted` repeats the spec, and `managedFields` repeats the field names of
both: with a larger spec, the object could exceed what etcd accepts."""
MAX_SPEC_VALUES: Final = 3_000
"""How many values a spec may consist of: objects, lists, texts, numbers. Decoding takes some microseconds for each."""
MAX_SPEC_DEPTH: Final = 32
"""How deeply objects and lists may be nested."""


def _any(**schema: Any) -> Mapping[str, Any]:
    """A schema for values of any type. Keywords for lists and objects apply to lists and objects only."""
    return {**schema, "x-kubernetes-preserve-unknown-fields": True}


def _in(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema for objects that may have these properties and any others."""
    described = {
        name: {"description": "As in a KubeSchedulerConfiguration.", **schema} for name, schema in properties.items()
    }
    return _any(properties=described)


_REQUIREMENTS: Final = _any(maxItems=64, items=_in(values=_any(maxItems=1_000)))
_TERM: Final = _in(matchExpressions=_REQUIREMENTS, matchFields=_REQUIREMENTS)
_RESOURCES: Final = _any(maxItems=32)
_SHAPE: Final = _any(maxItems=32)
BOUNDS_OF_ARGS: Final[Mapping[str, Any]] = _in(
    addedAffinity=_in(
        requiredDuringSchedulingIgnoredDuringExecution=_in(nodeSelectorTerms=_any(maxItems=64, items=_TERM)),
        preferredDuringSchedulingIgnoredDuringExecution=_any(maxItems=64, items=_in(preference=_TERM)),
    ),
    defaultConstraints=_any(maxItems=32),
    ignoredResourceGroups=_RESOURCES,
    ignoredResources=_RESOURCES,
    resources=_RESOURCES,
    scoringStrategy=_in(resources=_RESOURCES, requestedToCapacityRatio=_in(shape=_SHAPE)),
    shape=_SHAPE,
)
"""The schema of a plugin's args: bounds of the lists in the args of default plugins. A third-party plugin may have a
field of the same name and another type.
"""


def size_problem(spec: object) -> str:
    """Why a spec, or a part of one, is too large; "" if it is not. Stops at the first bound that is exceeded, so a far
    larger spec takes no longer.
    """
    values, level = 1, [spec]
    for _ in range(MAX_SPEC_DEPTH):
        below: list[object] = []
        for value in level:
            entries = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
            values += len(entries)
            if values > MAX_SPEC_VALUES:
                return f"too large: it consists of more than {MAX_SPEC_VALUES} values"
            below += entries
        level = below
    if level:
        return f"nested too deeply: the maximum is {MAX_SPEC_DEPTH} levels"
    size = len(json.dumps(spec, ensure_ascii=False, separators=(",", ":"), default=str).encode(errors="replace"))
    return f"too large: {size} bytes of JSON, the maximum is {MAX_SPEC_BYTES}" if size > MAX_SPEC_BYTES else ""
