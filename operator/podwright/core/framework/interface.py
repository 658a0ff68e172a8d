"""All that a plugin author reads: the extension points, and what a plugin is given.

A plugin is a class that inherits `Plugin` and the points it has. `filter` and `score` look at one node and are enough; a
plugin may also give `filter_all` and `score_all`, which look at all nodes at once as NumPy columns and must agree with
the per-node version, which stays as their oracle and serves preemption's dry runs. Points up to Permit are plain
calls without I/O; PreBind, Bind and PostBind are `async` and reach the cluster only through `Handle.cluster`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.features import Features
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import Status
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import Requests
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
Slots = NDArray[np.intp]
A = TypeVar("A", bound=np.generic)
Result = TypeVar("Result")

MAX_SCORE = 100
"""The greatest score after normalisation; the least is 0."""


class Cluster(Protocol):
    """What PreBind, Bind and PostBind may ask of the API server. Each method raises `ClusterError` on failure."""

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """Posts the Binding, retrying what may pass. Returns once the pod is known to be bound to that node."""

    async def get(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """Reads an object; None if it is not there."""

    async def update(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replaces an object (PUT with its resourceVersion) and returns what the server made of it."""

    async def wait_for(
        self, kind: str, name: str, namespace: str, done: Callable[[Mapping[str, Any] | None], bool], timeout: float
    ) -> None:
        """Waits until `done` holds of the object as it was last seen. `timeout` in seconds.

        Asks `done` at once, and again after every change of the object; what it raises passes through. Raises
        ClusterTimeoutError when the time is over.
        """


class ClusterError(Exception):
    """The API server refused, or could not be reached. `status` is the HTTP code, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ClusterTimeoutError(ClusterError):
    """What was waited for did not come in time."""


class WaitingPod(Protocol):
    """A pod that Permit plugins keep waiting, assumed on a node."""

    pod: PodInfo
    node_name: str

    @property
    def pending_plugins(self) -> Collection[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """The plugin no longer objects; the pod is bound once none does."""

    def reject(self, plugin: str, message: str) -> None:
        """The pod is not bound there: it goes back to the queue, rejected by the plugin."""


class Handle(Protocol):
    """What a plugin is built with besides its args."""

    cache: Cache
    features: Features
    cluster: Cluster

    def now(self) -> float:
        """Seconds since the epoch."""

    def waiting_pods(self) -> Collection[WaitingPod]:
        """The pods that wait in Permit, of all profiles."""


class CycleState:
    """What plugins keep for one pod's scheduling cycle, by keys of their own.

    Values with a `clone()` method are cloned with the state, for dry runs that change them.
    """

    __slots__ = ("data", "observer", "skip_filter", "skip_score")

    def __init__(self, observer: Observer | None = None) -> None:
        self.data: dict[str, Any] = {}
        self.observer = observer
        """Measures the plugins that run in this cycle; None: they are not measured. Dry runs on a clone never are."""
        self.skip_filter: set[str] = set()
        """Plugins whose PreFilter returned Skip."""
        self.skip_score: set[str] = set()

    def clone(self) -> CycleState:
        copy = CycleState()
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        copy.data = {k: v.clone() if hasattr(v, "clone") else v for k, v in self.data.items()}
        return copy


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Names of the only nodes that need looking at; None: all."""

    node_names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class FilterResult:
    """A vectorised filter's verdict on every row of the table.

    `ok`: bool[nodes] (rows that are holes may say anything). `explain()` gives int[nodes] codes and the statuses that the
    codes index, and is asked only about rejected nodes and only when somebody wants to know.
    """

    ok: Bools
    explain: Callable[[], tuple[NDArray[Any], Sequence[Status]]]


class Feasible:
    """The nodes that passed all filters. Scores are arrays aligned with `slots`."""

    __slots__ = ("everything", "slots", "table")

    def __init__(self, table: NodeTable, slots: Slots) -> None:
        self.table = table
        self.slots = slots
        self.everything = len(slots) == table.size
        """All rows: a column can be taken as it is."""

    def __len__(self) -> int:
        return len(self.slots)

    def take(self, column: NDArray[A]) -> NDArray[A]:
        """The column's rows of the feasible nodes; do not write to it."""
        return column if self.everything else column[self.slots]

    def nodes(self) -> Sequence[Node]:
        """The nodes themselves, in the order of `slots`."""
        nodes = self.table.nodes
        return [node for slot in self.slots if (node := nodes[slot]) is not None]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What PostFilter wants done: nominate the pod to a node once these pods are evicted. "" clears a nomination."""

    nominated_node: str
    victims: tuple[PodInfo, ...] = ()
    details: Any = None
    """How the plugin came to it, for whoever explains decisions."""
    violations: int = 0
    """Victims whose eviction overdraws a PodDisruptionBudget."""


@runtime_checkable
class HoldsPreemptors(Protocol):
    """A PostFilter plugin that keeps preemptors in PreEnqueue while their victims are being evicted.

    A preemptor is a pod, by its uid, or a pod group with all its members, those that come meanwhile included, by its key.
    A policy that changes has its plugins built anew: what is remembered in one is not known to the next.
    """

    def started(self, preemptor: str) -> None:
        """The evictions for this preemptor begin."""

    def finished(self, preemptor: str) -> None:
        """The deletion of its last victim has begun, or failed."""


class Diagnosis(Protocol):
    """Why no node was feasible, for PostFilter."""

    def status_of(self, slot: int) -> Status | None:
        """The status of the first filter that rejected the row's node."""


class Scope(IntEnum):
    """Which pods, besides the one being scheduled, can change what a plugin answers about a node. The widest is the default.

    It covers all that the plugin does up to Reserve: PreFilter, Filter, PreScore, Score (before `normalize`) and Reserve.
    Gang scheduling and preemption skip pods that no plugin of the profile can notice, so a scope that is too narrow hides victims.
    """

    NODE = 1
    """No other pod: the answer depends on the pod and the node, and on objects that are not pods."""
    NODE_PODS = 2
    """The pods on that node, too."""
    DOMAIN = 3
    """Pods on other nodes, too, but only those that the plugin names as a `DomainPlugin`."""
    CLUSTER = 4
    """Any pod on any node."""


class Plugin:
    """The base of all plugins. `args_type` is a frozen dataclass whose fields have defaults, or None.

    A dataclass field's metadata `name` gives the key in pluginConfig; a method `validate(self, where)` yields
    problems as (field path, problem).
    """

    name: ClassVar[str]
    scope: ClassVar[Scope] = Scope.CLUSTER
    args_type: ClassVar[type[Any] | None] = None
    not_supported: ClassVar[str] = ""
    """Why a profile cannot enable it: for plugins that are known by name only."""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def use(self, runner: Any) -> None:
        """Called once all plugins of the profile are built, with the `Framework` that runs them."""


class ExtensionPoint(ABC):
    """The base of the classes below. `Plugin` gives the name and the scope."""

    name: ClassVar[str]
    scope: ClassVar[Scope]


class DomainPlugin(ExtensionPoint):
    """Which pods on other nodes a plugin of `Scope.DOMAIN` can notice. Gang preemption leaves all others in place."""

    reaches_beyond_node: ClassVar[Callable[..., bool] | None] = None
    """`reaches_beyond_node(self, placed)`: whether a placed pod can change answers about pods on other nodes even if
    `looks_beyond_node` is False for these, for example by its own anti-affinity. None: no placed pod can."""

    @abstractmethod
    def looks_beyond_node(self, pod: PodInfo) -> bool:
        """Whether answers about this pod, which is being scheduled, depend on pods on other nodes."""

    @abstractmethod
    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        """Where the placed pod `other` can make the filter reject `pod`: topology keys, or None for every node.

        With a key: on nodes that have the same value of this label as the node of `other`; nodes without the label count as one
        domain. Empty: nowhere, not even on its own node. May name too many domains, but must not name too few.
        """

    @abstractmethod
    def influence_key(self, pod: PodInfo) -> Hashable:
        """What `influence` reads of a pod: pods with equal keys are compared once."""


class PreEnqueuePlugin(ExtensionPoint):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Whether the pod may enter the active queue."""


class QueueSortPlugin(ExtensionPoint):
    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """The pod with the least key is scheduled first. `queued_at`: when it last entered the queue, in seconds."""


class EnqueueExtensions(ExtensionPoint):
    hints_when_disabled: ClassVar[bool] = False
    """The hints also count in profiles that do not enable the plugin, because the core does the plugin's work in all of them."""

    @abstractmethod
    def hints(self) -> Sequence[EventHint]:
        """The cluster events that may make a pod schedulable which this plugin rejected."""


class PreFilterPlugin(ExtensionPoint):
    pre_filter_disabled: ClassVar[Callable[..., Status | None] | None] = None
    """`pre_filter_disabled(pod, cache)`, static: runs instead of `pre_filter` in profiles that do not enable it. Rejects
    pods that must never be bound without this plugin."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Once per pod, before the filters. Skip: this plugin's filter need not run."""


class PreFilterExtensions(ExtensionPoint):
    """For PreFilter plugins whose cycle state depends on placed pods: updates that state in dry runs."""

    @abstractmethod
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """`added` was put on `node` in a dry run."""

    @abstractmethod
    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """`removed` was taken off `node` in a dry run."""


class FilterPlugin(ExtensionPoint):
    filter_all: ClassVar[Callable[[Any, CycleState, PodInfo, NodeTable], FilterResult | None] | None] = None
    """`filter_all(self, state, pod, table)`: the same over all nodes; None: all pass."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Whether the pod may run on the node."""

    def verdict_key(self, pod: PodInfo) -> Hashable | None:
        """What the verdict reads of the pod; not None allows the core to cache verdicts. None, the default: never cached.

        Only for plugins of scope NODE or NODE_PODS. A cached verdict holds for all pods with an equal key while the node and the
        pods on it stay the same objects, so it must depend on nothing else: no other object of the cluster, and no clock.
        """


class ResourceFilter(FilterPlugin):
    """A filter that rejects nodes with too few free resources, or no free place for a pod.

    Gangs estimate with it how many members a node can take, and a binding cycle checks it again before it posts the Binding.
    """

    @abstractmethod
    def checked_requests(self, requests: Requests) -> Sequence[tuple[str, int]]:
        """The resources that the filter checks, each with the amount that must be free."""


class PostFilterPlugin(ExtensionPoint):
    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Called when no node is feasible: what might make one so."""

    def clear_cache(self) -> None:
        """Drops what the plugin has cached about nodes, so that old pods can be freed. The scheduler is idle."""


class PodGroupPostFilterPlugin(PostFilterPlugin):
    """A PostFilter plugin that lets pod groups preempt. Without one in a profile, its pod groups preempt no pods."""

    @abstractmethod
    def pod_group_post_filter(self, preempt: Callable[[], Result]) -> Result:
        """Runs `preempt`, in which core/gangs searches for victims in the whole cluster, and returns its result."""


class PreScorePlugin(ExtensionPoint):
    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, feasible: Feasible) -> Status | None:
        """Once per pod, before scoring. Skip: this plugin's score need not run and counts 0."""


class ScorePlugin(ExtensionPoint):
    score_all: ClassVar[Callable[[Any, CycleState, PodInfo, Feasible], Int64s | int] | None] = None
    """`score_all(self, state, pod, feasible)`: int64[feasible], or one number for all of them."""
    normalize: ClassVar[Callable[[Any, CycleState, PodInfo, Any, Feasible], Int64s | int] | None] = None
    """`normalize(self, state, pod, scores, feasible)`: scores brought into 0 to 100; int64[feasible] or one number."""
    normalizes_numbers: ClassVar[bool] = False
    """`normalize` also takes the one number that `score_all` gave; else it is made an array before."""

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How good the node is; within 0 to 100 unless `normalize` brings it there."""


class ReservePlugin(ExtensionPoint):
    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """The pod was assumed on the node."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """It will not be bound there after all. Must not fail, and may be called without `reserve`."""


class PermitPlugin(ExtensionPoint):
    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """Approve (None), deny, or Wait with a timeout in seconds."""


class PreBindPlugin(ExtensionPoint):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip: there is nothing to do in `pre_bind` for this pod."""

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Work that must be done before the pod is bound."""


class BindPlugin(ExtensionPoint):
    @abstractmethod
    async def bind(
        self, state: CycleState, pod: PodInfo, node_name: str, annotations: Mapping[str, str]
    ) -> Status | None:
        """Binds the pod. Skip: leave it to the next plugin."""


class PostBindPlugin(ExtensionPoint):
    @abstractmethod
    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The pod was bound."""
