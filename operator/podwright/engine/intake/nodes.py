"""The stream of nodes, by name."""

from __future__ import annotations

from collections.abc import Callable

from podwright.core.objects.raw import Raw
from podwright.core.objects.readable import parse_known_node
from podwright.core.state.nodeinfo import NodeInfo
from podwright.engine.intake.object_changes import NODE_DELETE, UNSCHEDULED_POD_ADD, node_event, same_node
from podwright.engine.intake.stream import Stream, name_of
from podwright.engine.ports import Ports, Regarding
from podwright.engine.state import EngineState


class Nodes(Stream):
    """See the module."""

    def __init__(
        self, state: EngineState, ports: Ports, *, scheduler_name: str, on_delete: Callable[[NodeInfo], None]
    ) -> None:
        """`scheduler_name`: the reporter of events. `on_delete` is called with each node that was deleted, and the pods
        on it.
        """
        super().__init__(state, ports)
        self._recorder = ports.recorder
        self._scheduler_name = scheduler_name
        self._on_delete = on_delete
        self._raw_objects = state.raw_objects

    def key(self, raw: Raw) -> str:
        return str(raw["metadata"]["name"])

    def put(self, raw: Raw) -> None:
        started = self._metrics.start()
        try:
            node, problems = parse_known_node(raw)
            for problem in problems:
                if text := self._invalid_objects.report("Node", name_of(raw), problem):
                    # As the kubelet's events of a node, it regards the node's name as its uid.
                    regarding = Regarding("", node.name, node.name, "", self._scheduler_name, "Node")
                    self._recorder.record(regarding, "Warning", "InvalidNode", "Scheduling", text)
            self._raw_objects.put_node(raw)
            known = self._cache.present(node.name)
            before = None if known is None else known.node
            if before is not None and same_node(before, node):
                return
            self._cache.set_node(node)
            event = node_event(before, node)
            if event is not None:
                self._arrivals.changes += 1
                self._queue.move(event, before, node)
                if before is None:
                    self._count_members(node.name)
                self._wake()
                self._metrics.event_ended(started, event.label)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._invalid_objects.report("Node", name_of(raw), error)

    def _count_members(self, node_name: str) -> None:
        """Counts the pods on a new node as members of their groups, which may complete the groups."""
        info = self._cache.present(node_name)
        for member in {pod.group: pod for pod in info.pods.values() if pod.group}.values() if info else ():
            if self._cache.groups.complete(member):
                self._queue.move(UNSCHEDULED_POD_ADD, None, member)

    def drop(self, key: str, _raw: Raw | None) -> None:
        started = self._metrics.start()
        known = self._cache.present(key)
        self._raw_objects.remove_node(key)
        if known is not None:
            before = known.node
            self._cache.remove_node(key)
            self._on_delete(known)
            self._happened(NODE_DELETE, before, None, started)
