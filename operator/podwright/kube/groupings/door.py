"""The door of WorkloadGroupings: while the API server serves them, the engine makes pod groups by them.

A grouping that is invalid stays as it last was: as this process knew it, or as its status says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.api.workload_grouping import (
    GroupingReport,
    last_accepted_grouping,
    parse_grouping,
    status_of,
)
from podwright.core.groupings import Grouping
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import GROUPING
from podwright.kube.write.object_status import ObjectStatuses, SeenObject
from podwright.kube.write.own_objects import OwnDoor, OwnSink

Raw = Mapping[str, Any]


class GroupingStatuses(ObjectStatuses):
    """Writes the statuses of groupings."""

    resource = GROUPING
    about = "grouping"
    refused = "GroupingNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self._workloads = engine.workloads
        self._counts: Mapping[str, int] = {}

    def prepare(self) -> None:
        self._counts = self._workloads.group_counts() if self._known else {}

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        grouping = self._workloads.groupings.get(name)
        report = GroupingReport(
            grouping=grouping,
            problem=seen.problem,
            unread="" if grouping is None else self._workloads.problem(grouping),
            groups=self._counts.get(name, 0),
        )
        return status_of(report, generation=seen.generation, spec=seen.spec, previous=seen.status, now=now)


class GroupingSink(OwnSink):
    """Takes WorkloadGroupings into the engine."""

    def __init__(self, engine: Engine, statuses: GroupingStatuses) -> None:
        super().__init__(engine.invalid_objects, statuses)
        self._workloads = engine.workloads
        self._specs: dict[str, object] = {}

    def take(self, name: str, raw: Raw) -> None:
        self._set(name, raw, parse_grouping(raw))

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        if first and (grouping := last_accepted_grouping(raw)) is not None:
            self._set(name, raw, grouping)

    def _set(self, name: str, raw: Raw, grouping: Grouping) -> None:
        if self._specs.get(name) != (spec := raw.get("spec")):
            self._specs[name] = spec
            self._workloads.set(grouping)

    def remove(self, name: str) -> None:
        self._specs.pop(name, None)
        self._workloads.remove(name)


def grouping_door(engine: Engine, statuses: GroupingStatuses) -> OwnDoor:
    return OwnDoor(GROUPING, "workload groupings", sink=lambda: GroupingSink(engine, statuses))
