"""The doors of the Topologies of Podwright, Kueue and KAI: while the API server serves them, the core has their levels.

An invalid Topology of Podwright keeps its last valid levels. When levels change, waiting pods are tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.topology import levels_of, parse_topology, status_of
from podwright.core.objects.raw import Raw
from podwright.core.state.topologies import OWN_API
from podwright.engine.engine import Engine
from podwright.kube.kinds import TOPOLOGY, Resource
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.watch.served_kinds import Door
from podwright.kube.write.object_status import SeenObject


class TopologyDoor(CheckedDoor):
    """The door of our Topologies."""

    resource = TOPOLOGY
    about = "topologies"
    noun = "topology"
    refused = "TopologyNotAccepted"

    def take(self, name: str, raw: Raw) -> None:
        _set(self._engine, f"{OWN_API}/{name}", parse_topology(raw))

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        """The last valid version stays."""

    def remove(self, name: str) -> None:
        _set(self._engine, f"{OWN_API}/{name}", None)

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        topologies, table = self._engine.cache.topologies, self._engine.cache.table
        labels = topologies.declared.get(f"{OWN_API}/{name}")
        levels = None if labels is None else topologies.levels(labels)
        return status_of(
            levels, table.count, generation=seen.generation, problem=seen.problem, previous=seen.status, now=now
        )

    def warnings_of(self, status: Raw) -> Mapping[str, str]:
        active = status["conditions"][1]
        return {active["reason"]: active["message"]} if active["reason"] == "LabelsMissing" else {}


class OtherTopologyDoor(Door):
    """The door of the Topologies of another API. `candidates`: its versions, the newest first."""

    def __init__(self, engine: Engine, candidates: Sequence[Resource]) -> None:
        self._api = candidates[0].group
        self.candidates = candidates
        self.kind = self.crd = f"{candidates[0].plural}.{self._api}"
        self.about = f"topologies of {self._api}"
        self._engine = engine

    def put(self, raw: Raw) -> None:
        name = self.key(raw)
        try:
            _set(self._engine, f"{self._api}/{name}", levels_of(raw))
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._engine.invalid_objects.report(f"Topology.{self._api}", name, error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        _set(self._engine, f"{self._api}/{key}", None)


def _set(engine: Engine, key: str, levels: tuple[str, ...] | None) -> None:
    topologies = engine.cache.topologies
    if topologies.declared.get(key) != levels:
        topologies.set(key, levels)
        engine.activate_all()
