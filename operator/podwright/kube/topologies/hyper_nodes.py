"""The door of Volcano's HyperNodes: while the API server serves them, the core has their tiers.

One that is invalid stays as it last was known. When one changes, the pods that wait are tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from podwright.api.scheduler_policy import identity_of
from podwright.api.topology import HYPER_NODE_KIND, parse_hyper_node
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.state.hyper_nodes import HyperNode
from podwright.engine.engine import Engine
from podwright.engine.ports import Recorder, Regarding
from podwright.kube.kinds import HYPER_NODE, Resource

Raw = Mapping[str, Any]


class HyperNodeSink:
    """Takes HyperNodes into the core. An event on each says what is wrong with it."""

    def __init__(self, engine: Engine, *, recorder: Recorder, scheduler_name: str) -> None:
        self._engine = engine
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._hyper_nodes = engine.cache.topologies.hyper_nodes
        self._hyper_nodes.on_problem = self._not_counting
        self._specs: dict[str, tuple[str, object]] = {}
        """By name: the uid, and the spec as it came."""

    @property
    def known(self) -> Collection[str]:
        return self._specs.keys()

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name, spec = self.key(raw), raw.get("spec")
        if name in self._specs and self._specs[name][1] == spec:
            return  # only its status, which Volcano writes, is new
        self._specs[name] = str(raw["metadata"].get("uid") or ""), spec
        try:
            self._set(name, parse_hyper_node(raw))
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._report(name, error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        del self._specs[key]
        self._set(key, None)

    def _set(self, name: str, hyper_node: HyperNode | None) -> None:
        self._hyper_nodes.set(name, hyper_node)
        self._engine.activate_all()

    def _not_counting(self, name: str, problem: str) -> None:
        self._report(name, InvalidObjectError("spec.members", problem).in_object(HYPER_NODE_KIND, name))

    def _report(self, name: str, error: Exception) -> None:
        text = self._engine.invalid_objects.report(HYPER_NODE_KIND, name, error)
        if text is not None:
            uid, version = self._specs[name][0], f"{HYPER_NODE.group}/{HYPER_NODE.version}"
            regarding = Regarding("", name, uid, "", self._scheduler_name, HYPER_NODE_KIND, version)
            self._recorder.record(regarding, "Warning", "HyperNodeNotAccepted", "Scheduling", text)


class HyperNodeDoor:
    """See the module."""

    kind = crd = f"{HYPER_NODE.plural}.{HYPER_NODE.group}"
    about = "HyperNodes of Volcano"
    candidates: Sequence[Resource] = (HYPER_NODE,)

    def __init__(self, engine: Engine, *, recorder: Recorder, scheduler_name: str) -> None:
        self._engine = engine
        self._recorder = recorder
        self._scheduler_name = scheduler_name

    def begin(self, _resource: Resource) -> HyperNodeSink:
        return HyperNodeSink(self._engine, recorder=self._recorder, scheduler_name=self._scheduler_name)

    def end(self, _resource: Resource) -> None:
        """All objects were dropped."""

    def changed(self) -> None:
        """Each object has had its effect."""
