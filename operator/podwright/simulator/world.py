"""The Handle that plugins get in a simulation: a cache filled from lists of objects, and no API server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from podwright.api.scheduling_queue import parse_queue
from podwright.api.spec.signals import Definitions
from podwright.core.framework.features import Features
from podwright.core.framework.interface import ClusterError, Handle
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.raw import as_list, json_type
from podwright.core.objects.readable import parse_known_node
from podwright.core.objects.watched_kinds import STORED_KINDS
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.signals import NO_SIGNALS, Signals

LISTS: Final[Mapping[str, str]] = {watched.plural_field: watched.kind for watched in STORED_KINDS}
"""Fields of a case and the kinds of the objects in them."""
NOW: Final = 4e9
"""Seconds since the epoch, later than any start time: a pod without a start time counts as started now."""


def _refusing(problem: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def refuse(*_args: Any, **_options: Any) -> None:
        raise ClusterError(problem)

    return refuse


class NoCluster:
    """A Cluster without an API server: every call raises ClusterError."""

    bind = _refusing("a simulation binds nothing")
    get = _refusing("a simulation reads nothing")
    update = create = patch = delete = _refusing("a simulation writes nothing")
    wait_for = _refusing("a simulation waits for nothing")


class World(Handle):
    """A cache and everything else that plugins ask their Handle for. `clock` returns seconds since the epoch; `store`
    is empty; `signals`: all that exist. The events of a simulation are not read.
    """

    def __init__(
        self,
        features: Features | None = None,
        clock: Callable[[], float] | None = None,
        store: ObjectStore | None = None,
        signals: Definitions = NO_SIGNALS,
    ) -> None:
        now = clock or (lambda: 0.0)
        super().__init__(
            cache=Cache(store=store, signals=Signals([*signals.values()], clock=now, wall=now)),
            features=features or Features(),
            cluster=NoCluster(),
            clock=now,
        )
        self._waiting: dict[str, PodInfo] = {}
        queues_of(self.cache).pending = self._waiting.values

    def fill(self, objects: Mapping[str, Any]) -> None:
        """Adds the lists of a case to the cache: `nodes`, `schedulingQueues`, `pods` and those of LISTS. Raises
        InvalidObjectError.

        Pods are added last, because kube-scheduler too waits for all its informers first.
        """
        for field, kind in LISTS.items():
            for raw in objects_of(objects.get(field), field):
                self.cache.set_object(kind, raw)
        for raw in objects_of(objects.get("nodes"), "nodes"):
            self.cache.set_node(parse_known_node(raw)[0])
        for raw in objects_of(objects.get("schedulingQueues"), "schedulingQueues"):
            queues_of(self.cache).set(parse_queue(raw))
        for raw in objects_of(objects.get("pods"), "pods"):
            self.set_pod(raw)

    def wait(self, pod: PodInfo) -> None:
        """The pod waits in its group, and in its queue, if there are queues, so that it has a part in their shares."""
        self._waiting[pod.uid] = pod
        self.cache.groups.add_waiting(pod)

    def set_pod(self, raw: Mapping[str, Any]) -> None:
        """Adds or updates a pod that has a node or a nominated node. Other pods, which are pending, only wait in their
        groups and queues.
        """
        pod = self.cache.groups.ranked(parse_pod(raw))
        if pod.node_name:
            self.cache.set_pod(pod)
        elif not pod.finished:
            self.wait(pod)
            if pod.nominated_node_name:
                self.cache.nominator.add(pod, pod.nominated_node_name)


def object_of(raw: object, where: str) -> Mapping[str, Any]:
    """Returns `raw` if it is an object, else raises InvalidObjectError naming `where`."""
    if not isinstance(raw, Mapping):
        raise InvalidObjectError(where, f"expected an object, got {'nothing' if raw is None else json_type(raw)}")
    return raw


def objects_of(raw: object, where: str) -> Sequence[Mapping[str, Any]]:
    """Returns `raw` if it is a list of objects, [] for None. Raises InvalidObjectError naming `where` and the index."""
    return [object_of(item, f"{where}[{i}]") for i, item in enumerate(as_list(raw, where))]
