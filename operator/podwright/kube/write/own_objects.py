"""The intake of a kind of Podwright's own whose statuses `object_status` writes. What one object raises becomes its
status, and harms no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podwright.api.scheduler_policy import identity_of
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.engine.invalid_objects import InvalidObjects
from podwright.kube.kinds import Resource
from podwright.kube.write.object_status import ObjectStatuses

Raw = Mapping[str, Any]


class OwnSink(ABC):
    """Takes the objects in."""

    def __init__(self, invalid_objects: InvalidObjects, statuses: ObjectStatuses) -> None:
        self.known: set[str] = set()
        self._invalid_objects = invalid_objects
        self._own_statuses = statuses

    @abstractmethod
    def take(self, name: str, raw: Raw) -> None:
        """Takes one object in. Whatever this raises is what is wrong with the object."""

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        """The object is invalid. `first`: no version of it was known before."""
        self.remove(name)

    @abstractmethod
    def remove(self, name: str) -> None:
        """The object was deleted."""

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name, problem = self.key(raw), ""
        first = name not in self.known
        self.known.add(name)
        try:
            self.take(name, raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            self.refuse(name, raw, first=first)
            self._invalid_objects.report(self._own_statuses.resource.kind, name, error)
        self._own_statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        self.remove(key)
        self._own_statuses.forget(key)


class OwnDoor:
    """A Door (`kube.watch.served_kinds`) that begins with a new sink, and has nothing to do at its end."""

    def __init__(self, resource: Resource, about: str, sink: Callable[[], OwnSink]) -> None:
        self.kind = resource.kind
        self.about = about
        self.candidates: Sequence[Resource] = (resource,)
        self.crd = f"{resource.plural}.{resource.group}"
        self._sink = sink

    def begin(self, _resource: Resource) -> OwnSink:
        return self._sink()

    def end(self, _resource: Resource) -> None:
        """All objects were dropped."""

    def changed(self) -> None:
        """Each object has had its effect."""
