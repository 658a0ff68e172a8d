"""How lines are logged: a fixed sentence, with the objects that it is about as fields beside it.

    log.warning("The node of a bound pod is gone", extra=fields(pod=pod, node=name))
    if log.isEnabledFor(V3): log.log(V3, "Chose a node", extra=fields(pod=pod, node=name))

Numbers of verbosity are klog's (`--v`). They lie below Python's INFO: v=0 is INFO, v=10 is DEBUG. `kube/log_format.py`
writes the fields. Source: Kubernetes' conventions for logging (contributors/devel/sig-instrumentation/logging.md).

| v | lines |
| --- | --- |
| 0 | errors, warnings, start and stop, policies |
| 2 | changes of state: a watch is open again, a kind is served again |
| 3 | one line for each decision |
| 4 | for each pod that fits on no node, which plugin rejected how many nodes and why |
| 5 | details of a decision: its score and the runner-up, nodes rejected by each plugin |
| 6 | failures that are logged at a lower v once, each time they happen |
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

FIELDS: Final = "fields"
"""The attribute of a log record that has its fields."""
EACH_TIME: Final[Mapping[str, Any]] = {"each_time": True}
"""The argument `extra` of a log call whose lines show the order of events. Repeated lines are written, not counted."""
ITEMS_LIMIT: Final = 50
"""The most items of a list in a field."""


class ObjectRef(NamedTuple):
    """An object of Kubernetes in a field. `namespace` is empty for objects without one."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def level_of(verbosity: int) -> int:
    """The level of Python's logging for a verbosity, which is at least 0."""
    return max(1, logging.INFO - verbosity)


def verbosity_of(level: int) -> int:
    """The verbosity of a level up to INFO; 0 above."""
    return max(0, logging.INFO - level)


V2: Final = level_of(2)
V3: Final = level_of(3)
V4: Final = level_of(4)
V5: Final = level_of(5)
V6: Final = level_of(6)


def fields(**values: Any) -> Mapping[str, Any]:
    """The argument `extra` of a log call. Pods, and other objects with `name` and `namespace`, are replaced by
    references.
    """
    return {FIELDS: {key: _plain(value) for key, value in values.items()}}


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of a record, which may have none."""
    found: Mapping[str, Any] = getattr(record, FIELDS, {})
    return found


def is_written_each_time(record: logging.LogRecord) -> bool:
    """True if the line was logged with EACH_TIME."""
    return any(hasattr(record, name) for name in EACH_TIME)


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | ObjectRef | None):
        return value
    if hasattr(value, "namespace") and hasattr(value, "name"):
        return ObjectRef(value.name, value.namespace)
    if isinstance(value, list | tuple | frozenset | set):
        items = [_plain(each) for each in itertools.islice(value, ITEMS_LIMIT)]
        return [*items, "…"] if len(value) > ITEMS_LIMIT else items
    return str(value)
