"""The door of a kind whose statuses `object_status` writes. What one object raises becomes its status, and harms no
other.
"""

from __future__ import annotations

from typing import Any

from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.raw import Raw
from podwright.engine.invalid_objects import InvalidObjects
from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.watch.served_kinds import Door
from podwright.kube.write.object_status import ObjectStatuses


class CheckedDoor(ObjectStatuses, Door):
    """See the module."""

    def __init__(self, http: Http, invalid_objects: InvalidObjects, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self.kind = self.resource.kind
        self.candidates = (self.resource,)
        self.crd = f"{self.resource.plural}.{self.resource.group}"
        self.served = False
        """True while the API server serves the kind."""
        self._invalid_objects = invalid_objects

    def take(self, name: str, raw: Raw) -> None:
        """Takes one object in. Whatever this raises is what is wrong with the object."""

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        """The object is invalid. `first`: no version of it was known before."""
        self.remove(name)

    def remove(self, name: str) -> None:
        """The object was deleted."""

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
            self._invalid_objects.report(self.resource.kind, name, error)
        self.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.remove(key)
        self.forget(key)
