"""The door of Volcano's HyperNodes: while the API server serves them, the core has their tiers.

One that is invalid stays as it last was known. When one changes, the pods that wait are tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.api.topology import HYPER_NODE_KIND, parse_hyper_node
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw
from podwright.core.state.hyper_nodes import HyperNode
from podwright.engine.engine import Engine
from podwright.engine.ports import Recorder, Regarding
from podwright.kube.kinds import HYPER_NODE, Resource
from podwright.kube.watch.served_kinds import Door


class HyperNodeDoor(Door):
    """See the module. An event on each says what is wrong with it."""

    kind = crd = f"{HYPER_NODE.plural}.{HYPER_NODE.group}"
    about = "HyperNodes of Volcano"
    candidates: Sequence[Resource] = (HYPER_NODE,)

    def __init__(self, engine: Engine, *, recorder: Recorder, scheduler_name: str) -> None:
        self._engine = engine
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._hyper_nodes = engine.cache.topologies.hyper_nodes
        self._hyper_nodes.on_problem = self._not_counting
        self._known: dict[str, tuple[str, object]] = {}
        """By name: the uid, and the spec as it came."""

    def put(self, raw: Raw) -> None:
        name, spec = self.key(raw), raw.get("spec")
        if name in self._known and self._known[name][1] == spec:
            return  # only its status, which Volcano writes, is new
        self._known[name] = str(raw["metadata"].get("uid") or ""), spec
        try:
            self._set(name, parse_hyper_node(raw))
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._report(name, error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self._known.pop(key, None)
        self._set(key, None)

    def _set(self, name: str, hyper_node: HyperNode | None) -> None:
        self._hyper_nodes.set(name, hyper_node)
        self._engine.activate_all()

    def _not_counting(self, name: str, problem: str) -> None:
        self._report(name, InvalidObjectError("spec.members", problem).in_object(HYPER_NODE_KIND, name))

    def _report(self, name: str, error: Exception) -> None:
        text = self._engine.invalid_objects.report(HYPER_NODE_KIND, name, error)
        if text is not None:
            uid, version = self._known[name][0], f"{HYPER_NODE.group}/{HYPER_NODE.version}"
            regarding = Regarding("", name, uid, "", self._scheduler_name, HYPER_NODE_KIND, version)
            self._recorder.record(regarding, "Warning", "HyperNodeNotAccepted", "Scheduling", text)
