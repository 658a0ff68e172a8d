"""The door of a kind whose statuses `object_status` writes. What one object raises becomes its status, and harms no
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.engine.ports import Recorder, Regarding
from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.watch.served_kinds import Door
from podwright.kube.write.object_status import ObjectStatuses, SeenObject


class CheckedDoor(ObjectStatuses, Door):
    """See the module. Events say what is wrong with an object. `scheduler_name`: who reports them."""

    refused: ClassVar[str]
    """The reason of the event about an object that is not accepted."""

    def __init__(
        self,
        http: Http,
        engine: Engine,
        *,
        recorder: Recorder,
        scheduler_name: str,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(http, clock=clock)
        self._engine = engine
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self.kind = self.resource.kind
        self.candidates = (self.resource,)
        self.crd = f"{self.resource.plural}.{self.resource.group}"
        self.served = False
        """True while the API server serves the kind."""

    def take(self, name: str, raw: Raw) -> None:
        """Takes one object in. Whatever this raises is what is wrong with the object."""

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        """The object is invalid. `first`: no version of it was known before."""
        self.remove(name)

    def remove(self, name: str) -> None:
        """The object was deleted."""

    def problem_of(self, _name: str, _seen: SeenObject, status: Raw) -> str:
        """Returns the problem of an object with this status; "" without one. Its first condition is Accepted."""
        accepted = status["conditions"][0]
        return "" if accepted["status"] == "True" else str(accepted["message"])

    def warnings_of(self, _status: Raw) -> Mapping[str, str]:
        """Returns further warnings about an object with this status, by the reason of the event. Each reason has one
        event until the warning is gone.
        """
        return {}

    def compared(self, name: str, seen: SeenObject, status: Raw) -> None:
        problem, warnings = self.problem_of(name, seen, status), self.warnings_of(status)
        if problem and problem != seen.reported:
            self._warn(name, seen, self.refused, problem)
        seen.reported = problem
        for reason in warnings.keys() - seen.warned:
            self._warn(name, seen, reason, warnings[reason])
        seen.warned = frozenset(warnings)

    def _warn(self, name: str, seen: SeenObject, reason: str, text: str) -> None:
        kind, version = self.resource.kind, f"{self.resource.group}/{self.resource.version}"
        regarding = Regarding("", name, seen.uid, "", self._scheduler_name, kind, version)
        self._recorder.record(regarding, "Warning", reason, "Scheduling", text)

    def begin(self, _resource: Resource) -> None:
        self.served = True

    def end(self, _resource: Resource) -> None:
        self.served = False

    def put(self, raw: Raw) -> None:
        name, problem = self.key(raw), ""
        try:
            self.take(name, raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            self.refuse(name, raw, first=name not in self._known)
            self._engine.invalid_objects.report(self.resource.kind, name, error)
        self.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.remove(key)
        self.forget(key)
