"""The door of WorkloadGroupings: while the API server serves them, the engine makes pod groups by them.

A grouping that is invalid stays as it last was: as this process knew it, or as its status says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.api.own_objects import accepted, checked_status, last_valid
from podwright.api.workload_grouping import active, parse_grouping
from podwright.core.groupings import Grouping
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import GROUPING
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.write.object_status import SeenObject


class GroupingDoor(CheckedDoor):
    """See the module."""

    resource = GROUPING
    about = "workload groupings"
    noun = "grouping"
    refused = "GroupingNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: see CheckedDoor."""
        super().__init__(http, engine, **options)
        self._workloads = engine.workloads
        self._specs: dict[str, object] = {}
        self._counts: Mapping[str, int] = {}

    def take(self, name: str, raw: Raw) -> None:
        self._set(name, raw, parse_grouping(raw))

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        if first and (grouping := last_valid(raw, parse_grouping)) is not None:
            self._set(name, raw, grouping)

    def _set(self, name: str, raw: Raw, grouping: Grouping) -> None:
        if self._specs.get(name) != (spec := raw.get("spec")):
            self._specs[name] = spec
            self._workloads.set(grouping)

    def remove(self, name: str) -> None:
        self._specs.pop(name, None)
        self._workloads.remove(name)

    async def prepare(self) -> None:
        self._counts = self._workloads.group_counts() if self._known else {}

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        grouping = self._workloads.groupings.get(name)
        unread = "" if grouping is None else self._workloads.problem(grouping)
        found = (accepted("grouping", seen.problem), active(grouping, seen.problem, unread))
        status = checked_status(
            found, generation=seen.generation, previous=seen.status, now=now, keeps=(seen.problem, seen.spec)
        )
        return {**status, "groups": self._counts.get(name, 0)}
