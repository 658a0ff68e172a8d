"""The door of WorkloadGroupings: while the API server serves them, the engine makes pod groups by them.

A grouping that is invalid stays as it last was: as this process knew it, or as its status says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.scheduler_policy import GROUP, identity_of
from podwright.api.workload_grouping import (
    GROUPING_KIND,
    GROUPING_PLURAL,
    GroupingReport,
    parse_grouping,
    status_of,
)
from podwright.core.groupings import Grouping
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import GROUPING, Resource
from podwright.kube.write.object_status import ObjectStatuses, SeenObject

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


class GroupingDoor:
    """See the module."""

    kind: str = GROUPING_KIND
    about: str = "workload groupings"
    candidates: Sequence[Resource] = (GROUPING,)
    crd: str = f"{GROUPING_PLURAL}.{GROUP}"

    def __init__(self, engine: Engine, statuses: GroupingStatuses) -> None:
        self._engine = engine
        self._statuses = statuses

    def begin(self, _resource: Resource) -> GroupingSink:
        return GroupingSink(self._engine, self._statuses)

    def end(self, _resource: Resource) -> None:
        """All groupings were dropped."""

    def changed(self) -> None:
        """Each grouping has put pods into their groups."""


class GroupingSink:
    """Takes WorkloadGroupings into the engine."""

    def __init__(self, engine: Engine, statuses: GroupingStatuses) -> None:
        self.known: set[str] = set()
        self._engine = engine
        self._statuses = statuses
        self._specs: dict[str, object] = {}

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name, problem = self.key(raw), ""
        first = name not in self.known
        self.known.add(name)
        grouping: Grouping | None = None
        try:
            grouping = parse_grouping(raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            grouping = _last_accepted(raw) if first else None
            self._engine.invalid_objects.report(GROUPING_KIND, name, error)
        if grouping is not None and self._specs.get(name) != (spec := raw.get("spec")):
            self._specs[name] = spec
            self._engine.workloads.set(grouping)
        self._statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        self._specs.pop(key, None)
        self._engine.workloads.remove(key)
        self._statuses.forget(key)


def _last_accepted(raw: Raw) -> Grouping | None:
    """The grouping as its status says that it last was valid. None without that, and if it cannot be read: anybody may
    have written it.
    """
    try:
        return parse_grouping({**raw, "spec": raw["status"]["lastAccepted"]["spec"]})
    except Exception:  # noqa: BLE001 -- see above
        return None
