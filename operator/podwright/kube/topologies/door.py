"""The doors of Topologies, ours and those of Kueue and KAI: while the API server serves them, the core has their
levels.

A Topology of ours that is invalid stays as it last was known. When levels change, the pods that wait are tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.scheduler_policy import identity_of
from podwright.api.topology import levels_of, parse_topology, status_of
from podwright.core.state.topologies import OWN_API
from podwright.engine.engine import Engine
from podwright.engine.ports import Recorder
from podwright.kube.client.http import Http
from podwright.kube.kinds import KAI_TOPOLOGY, KUEUE_TOPOLOGY, TOPOLOGY, Resource
from podwright.kube.topologies.hyper_nodes import HyperNodeDoor
from podwright.kube.write.object_status import ObjectStatuses, SeenObject
from podwright.kube.write.own_objects import OwnDoor, OwnSink

Raw = Mapping[str, Any]


class TopologyStatuses(ObjectStatuses):
    """Writes the statuses of our topologies."""

    resource = TOPOLOGY
    about = "topology"
    refused = "TopologyNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self._cache = engine.cache

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        topologies, table = self._cache.topologies, self._cache.table
        labels = topologies.declared.get(f"{OWN_API}/{name}")
        levels = None if labels is None else topologies.levels(labels)
        return status_of(
            levels, table.count, generation=seen.generation, problem=seen.problem, previous=seen.status, now=now
        )

    def warnings_of(self, status: Raw) -> Mapping[str, str]:
        active = status["conditions"][1]
        return {active["reason"]: active["message"]} if active["reason"] == "LabelsMissing" else {}


def _set(engine: Engine, key: str, levels: tuple[str, ...] | None) -> None:
    topologies = engine.cache.topologies
    if topologies.declared.get(key) != levels:
        topologies.set(key, levels)
        engine.activate_all()


class TopologySink(OwnSink):
    """Takes our Topologies into the core."""

    def __init__(self, engine: Engine, statuses: TopologyStatuses) -> None:
        super().__init__(engine.invalid_objects, statuses)
        self._engine = engine

    def take(self, name: str, raw: Raw) -> None:
        _set(self._engine, f"{OWN_API}/{name}", parse_topology(raw))

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        """The last valid version stays."""

    def remove(self, name: str) -> None:
        _set(self._engine, f"{OWN_API}/{name}", None)


class OtherTopologySink:
    """Takes Topologies of another API into the core."""

    def __init__(self, engine: Engine, api: str) -> None:
        self.known: set[str] = set()
        self._engine = engine
        self._api = api

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name = self.key(raw)
        self.known.add(name)
        try:
            _set(self._engine, f"{self._api}/{name}", levels_of(raw))
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.report(f"Topology.{self._api}", name, error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        _set(self._engine, f"{self._api}/{key}", None)


class OtherTopologyDoor:
    """See the module. `candidates`: the versions of one API, the newest first."""

    def __init__(self, engine: Engine, candidates: Sequence[Resource]) -> None:
        first = candidates[0]
        self.candidates = candidates
        self.kind = self.crd = f"{first.plural}.{first.group}"
        self.about = f"topologies of {first.group}"
        self._engine = engine

    def begin(self, resource: Resource) -> OtherTopologySink:
        return OtherTopologySink(self._engine, resource.group)

    def end(self, _resource: Resource) -> None:
        """All objects were dropped."""

    def changed(self) -> None:
        """Each object has had its effect."""


def topology_doors(
    engine: Engine, statuses: TopologyStatuses, *, recorder: Recorder, scheduler_name: str
) -> list[OwnDoor | OtherTopologyDoor | HyperNodeDoor]:
    own = OwnDoor(TOPOLOGY, "topologies", sink=lambda: TopologySink(engine, statuses))
    others = (OtherTopologyDoor(engine, each) for each in (KUEUE_TOPOLOGY, KAI_TOPOLOGY))
    return [own, *others, HyperNodeDoor(engine, recorder=recorder, scheduler_name=scheduler_name)]
