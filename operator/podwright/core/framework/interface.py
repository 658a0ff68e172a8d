"""The contract between plugins and the scheduler: the extension points, and what a plugin receives.

A plugin is a class that inherits `Plugin` and the classes of its extension points. `filter` and `score` work on one
node. A plugin can also define `filter_all` and `score_all`, which work on all nodes at once as NumPy columns. Both
versions must agree: preemption's dry runs use the per-node version, and tests compare the two. The methods up to Permit
are plain calls without I/O. PreBind, Bind and PostBind are `async` and reach the API server only through
`Handle.cluster`.

Next: docs/writing-a-plugin.md for a guided tour, `framework` for how plugins are run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.cost import Cost
from podwright.core.framework.errors import ReportException
from podwright.core.framework.explaining import NodeChange, PodChange, Why
from podwright.core.framework.features import Features
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.framework.status import Status
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import Requests
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

Bools = NDArray[np.bool_]
Int16s = NDArray[np.int16]
Int64s = NDArray[np.int64]
WholeNumbers = Int16s | NDArray[np.int32] | Int64s
"""Whole numbers. Scores from 0 to 100 take a quarter of the time as int16 where there are many nodes."""
Slots = NDArray[np.intp]
A = TypeVar("A", bound=np.generic)

MAX_SCORE = 100
"""The highest score after normalisation; the lowest is 0."""


class Cluster(Protocol):
    """The API server, for PreBind, Bind and PostBind. Each method raises `ClusterError` on failure."""

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        """Posts the Binding and retries transient errors. Returns once the pod is known to be bound to that node."""

    async def get(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """Reads an object; None if it does not exist."""

    async def update(self, kind: str, raw: Mapping[str, Any], subresource: str = "") -> Mapping[str, Any]:
        """Replaces an object, or its `status` (PUT with its resourceVersion), and returns the stored object."""

    async def create(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Creates an object and returns the stored object. The request is sent once, because `metadata.generateName`
        would give each attempt another name.
        """

    async def patch(
        self, kind: str, name: str, namespace: str, change: Mapping[str, Any], subresource: str = ""
    ) -> Mapping[str, Any]:
        """Merges a change into an object or its `status` (a strategic merge patch) and returns the stored object."""

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> None:
        """Deletes the object if it has this uid. One that is gone is no error."""

    async def wait_for(
        self, kind: str, name: str, namespace: str, done: Callable[[Mapping[str, Any] | None], bool], timeout: float
    ) -> None:
        """Waits until `done` is true for the last known version of the object. `timeout` in seconds.

        Calls `done` at once and after every change of the object, and does not catch its exceptions. Raises
        ClusterTimeoutError after the timeout.
        """


class ClusterError(Exception):
    """The API server refused a request or could not be reached. `status` is the HTTP code, 0 without a response."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ClusterTimeoutError(ClusterError):
    """`wait_for` reached its timeout."""


class WaitingPod(Protocol):
    """A pod that is assumed on a node and waits in Permit."""

    pod: PodInfo
    node_name: str

    @property
    def pending_plugins(self) -> Collection[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """Approves the pod for one plugin. It is bound once all pending plugins have approved it."""

    def reject(self, plugin: str, message: str) -> None:
        """Returns the pod to the queue, rejected by the plugin."""


EventType = Literal["Normal", "Warning"]


@dataclass(slots=True, kw_only=True, eq=False)
class Handle:
    """The inputs of a plugin's constructor besides the args. By default, no pods wait in Permit, and no events are
    written.
    """

    cache: Cache
    features: Features
    cluster: Cluster
    observer: Observer = NO_OBSERVER
    """Learns what a plugin does, for metrics."""
    clock: Callable[[], float]
    waiting: Callable[[], Collection[WaitingPod]] = tuple
    recorder: Callable[[PodInfo, EventType, str, str], None] | None = None

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock()

    def waiting_pods(self) -> Collection[WaitingPod]:
        """The pods of all profiles that wait in Permit."""
        return self.waiting()

    def record(self, pod: PodInfo, kind: EventType, reason: str, note: str) -> None:
        """Writes an event on the pod, in addition to those about its attempts. Never blocks and never fails."""
        if self.recorder is not None:
            self.recorder(pod, kind, reason, note)


FollowUp = Callable[[], Awaitable[None]]


class CycleState:
    """The values that plugins store during one pod's scheduling cycle, each under its own key in `data`.

    Cloning the state also clones values that have a `clone()` method, so that dry runs can change them.
    """

    __slots__ = ("best", "data", "devices", "follow_ups", "left", "observer", "skip_filter", "skip_score")

    def __init__(self, observer: Observer | None = None) -> None:
        self.data: dict[str, Any] = {}
        self.observer = observer
        """Measures the plugins that run in this cycle; None: they are not measured. Dry runs on a clone never are."""
        self.left: Bools | None = None
        """bool[nodes]: the nodes that the filters before `filter_all` have passed; None: unknown. `filter_all` may skip
        all others.
        """
        self.best: Sequence[int] | None = None
        """The rows of the greatest of the scores, in ascending order, if Score knows them already."""
        self.devices: Sequence[str] = ()
        """The devices that the pod gets on its node, as driver/pool/device. Reserve sets it."""
        self.follow_ups: list[FollowUp] = []
        """Requests to send to the API server because of the outcome. Plugins add them in PostFilter and Unreserve. The
        engine runs them after the attempt; a simulation does not.
        """
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
    """The names of the only nodes that can be feasible; None: no restriction."""

    node_names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class FilterResult:
    """A vectorised filter's verdict on every row of the table.

    `ok`: bool[nodes]; the value of an empty row is ignored. `explain()` returns int[nodes] codes, and the statuses that
    the codes index. It is called only if the reasons are needed, and read only for rejected nodes.
    """

    ok: Bools
    explain: Callable[[], tuple[NDArray[Any], Sequence[Status]]]


FILLED_SIZE: Final = 4096
ROWS_PER_GAP: Final = 8
"""In a table of at least FILLED_SIZE rows with at most one infeasible row in ROWS_PER_GAP, the last rows take the
places of the infeasible ones: to copy a column and write a few rows is faster than to pick all others.
"""
_ROWS: Slots = np.arange(1024)
_ROWS.setflags(write=False)


def _all_rows(size: int) -> Slots:
    global _ROWS  # noqa: PLW0603 -- 0, 1, 2, …: a constant that grows with the table
    if len(_ROWS) < size:
        _ROWS = np.arange(2 * size)
        _ROWS.setflags(write=False)
    return _ROWS[:size]


class Feasible:
    """The nodes that passed all filters. Scores are arrays aligned with `slots`."""

    __slots__ = ("_count", "_filled", "_slots", "alive", "all_rows", "table")

    def __init__(
        self, table: NodeTable, slots: Slots | None, filled: tuple[Slots, Slots] | None = None, count: int = 0
    ) -> None:
        """Without `slots`, the rows are the first `count`. If there are more, some are replaced by others: `filled` has
        those that are replaced, then as many that replace them.
        """
        self.table = table
        self._slots = slots
        self._filled = filled
        self._count = count if slots is None else len(slots)
        self.all_rows = self._count == table.size
        """True if all rows of the table are feasible, so that `take` need not copy."""
        self.alive: Bools | None = None
        """bool[nodes]: the rows; None: all of them, or unknown."""

    @classmethod
    def whole(cls, table: NodeTable) -> Feasible:
        """All rows."""
        return cls(table, None, count=table.size)

    @classmethod
    def passing(cls, table: NodeTable, alive: Bools) -> Feasible:
        """The rows where `alive`, bool[nodes], is True."""
        size = table.size
        infeasible = 0 if alive is table.valid and table.full else size - int(np.count_nonzero(alive))
        if not infeasible:
            return cls(table, None, count=size)
        if size < FILLED_SIZE:
            return cls(table, alive.nonzero()[0])
        count, filled = size - infeasible, None
        if infeasible * ROWS_PER_GAP <= size:
            filled = (~alive[:count]).nonzero()[0], count + alive[count:].nonzero()[0]
        feasible = cls(table, None, filled, count)
        feasible.alive = alive
        return feasible

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> Slots:
        """The rows: in ascending order, except where last rows take the places of infeasible ones."""
        if self._slots is None:
            if self.alive is not None and self._filled is None:
                self._slots = self.alive.nonzero()[0]
            else:
                self._slots = self.take(_all_rows(self.table.size))
        return self._slots

    def slot(self, index: int) -> int:
        """`slots[index]`."""
        if self.all_rows:
            return index
        if self._filled is None:
            return int(self.slots[index])
        gaps, last = self._filled
        place = int(np.searchsorted(gaps, index))
        return int(last[place]) if place < len(gaps) and gaps[place] == index else index

    def take(self, column: NDArray[A]) -> NDArray[A]:
        """The feasible nodes' rows of the column. Read-only."""
        if self.all_rows:
            return column
        if self._filled is None:
            return column.take(self.slots)
        gaps, last = self._filled
        taken = column[: self._count].copy()
        taken[gaps] = column[last]
        return taken

    def in_rows(self, scores: WholeNumbers) -> tuple[WholeNumbers, Feasible]:
        """Returns the scores, [feasible], in the order of the table's rows, and these rows. Rows that are not feasible
        have the least number if last rows had taken their places.
        """
        if self._filled is None:
            return scores, self
        gaps, last = self._filled
        rows = np.full(self.table.size, np.iinfo(scores.dtype).min, scores.dtype)
        rows[: self._count] = scores
        rows[last] = scores[gaps]
        rows[gaps] = np.iinfo(scores.dtype).min
        return rows, Feasible.whole(self.table)

    def nodes(self) -> Sequence[Node]:
        """The feasible nodes, in the order of `slots`."""
        nodes = self.table.nodes
        return [node for slot in self.slots if (node := nodes[slot]) is not None]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Nominate the pod to a node, and evict the victims there. "" clears a nomination."""

    nominated_node: str
    victims: tuple[PodInfo, ...] = ()
    details: Any = None
    """How the plugin found the result, for explanations of decisions."""
    violations: int = 0
    """How many victims violate a PodDisruptionBudget."""


@runtime_checkable
class HoldsPreemptors(Protocol):
    """A PostFilter plugin that keeps preemptors in PreEnqueue while their victims are being evicted.

    A preemptor is a pod (by uid), or a pod group with all its present and future members (by key). A changed policy
    gets new plugins, which do not know what the old ones remember.
    """

    def started(self, preemptor: str) -> None:
        """Evictions for this preemptor start."""

    def finished(self, preemptor: str) -> None:
        """The deletion of the last victim has started or failed."""


class Diagnosis(Protocol):
    """Why each node was rejected, for PostFilter."""

    def status_of(self, slot: int) -> Status | None:
        """The status from the first filter that rejected the node in this row."""


class Scope(IntEnum):
    """Which pods, besides the one being scheduled, can change a plugin's answer about a node. The default is the
    widest.

    The scope covers PreFilter, Filter, PreScore, Score (before `normalize`) and Reserve. Preemption and gang scheduling
    skip pods that no plugin of the profile can notice. So a scope that is too narrow hides victims from them.
    """

    NODE = 1
    """No other pods. The answer depends on the pod, the node, and perhaps other objects that are not pods."""
    NODE_PODS = 2
    """The pods on that node, too."""
    DOMAIN = 3
    """Pods on other nodes, too, but only those that the plugin names as a `DomainPlugin`."""
    CLUSTER = 4
    """Any pod on any node."""


class Plugin:
    """The base of all plugins.

    `args_type` is None or a frozen dataclass whose fields all have defaults. The metadata `name` of a field overrides
    its key in pluginConfig. A method `validate(self, where)` of the dataclass yields problems as (field path, problem).
    """

    name: ClassVar[str]
    scope: ClassVar[Scope] = Scope.CLUSTER
    args_type: ClassVar[type[Any] | None] = None
    not_supported: ClassVar[str] = ""
    """Why a profile cannot enable the plugin; for plugins of kube-scheduler that are only known by name."""
    feature_gate: ClassVar[str] = ""
    """The gate that must be on for the default profile to include the plugin. Empty: it needs none."""

    optional: ClassVar[bool] = False
    """True if any policy may disable the plugin's filter: a pod may then get a worse node, but none that cannot run it.
    """
    unsafe_args: ClassVar[Mapping[str, str]] = {}
    """Args, by key in pluginConfig, that a policy may only set if the operator allows unsafe ones. The values say what
    could happen.
    """
    scoring_args: ClassVar[Collection[str]] = ()
    """Args, by key in pluginConfig, about scores alone: they end where a LocalSchedulerPolicy has a strategy of its
    own.
    """

    reason: ClassVar[str] = ""
    """Why the plugin rejects pods, in one word for programs that read explanations."""

    remoteness: ClassVar[float] = 3.0
    """How far the nodes are that the filter rejects: the nearest are explained, and changes for them tried, first. What
    ends by itself, such as load, is from 1 to 2 away; what people have to change, 3.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def attach(self, framework: Any) -> None:
        """Called after all plugins of the profile are constructed. `framework`: a weak proxy of the `Framework`."""

    def costs(self, _pod: PodInfo) -> Iterable[Cost]:
        """The parts of the pod that the plugin checks in each attempt at it. Pods with very many wait behind ordinary
        ones, so leave out what an ordinary pod has too. Called for each pod that comes or changes.
        """
        return ()

    # For explanations, which also prove the changes

    def why_not_here(self, _pod: PodInfo, _node: NodeInfo, _message: str) -> Why:
        """Says more about why the filter rejects the node than its status, whose message is given."""
        return Why()

    def why_nowhere(self, _pod: PodInfo, _message: str) -> Why:
        """Says more about why PreFilter rejects the pod than its status, whose message is given."""
        return Why()

    def remoteness_of(self, _pod: PodInfo, _table: NodeTable) -> NDArray[np.float64] | float:
        """`remoteness`, or float[nodes]."""
        return self.remoteness

    def changes_of_pod(self, _pod: PodInfo, _node: NodeInfo) -> Iterable[PodChange]:
        """Changes of the pod, from `pod.raw`, after which the filter may accept the node, the smallest first."""
        return ()

    def change_of_node(self, _pod: PodInfo, _node: Node) -> NodeChange | None:
        """A change of the node after which the filter may accept it, or None."""
        return None


class ExtensionPoint(ABC):
    """The base of the classes below. `Plugin` defines the name and the scope."""

    name: ClassVar[str]
    scope: ClassVar[Scope]
    report_exception: ReportException | None = None
    """Set by the framework: it calls this with every exception that a method of the plugin raises."""
    loop: Callable[..., Any] | None = None
    """Set by the plugin's watcher (`guarded`): calls the loop that calls `filter` or `score` node by node."""


class DomainPlugin(ExtensionPoint):
    """Names the pods on other nodes that a plugin of `Scope.DOMAIN` can notice. Gang preemption skips all others."""

    reaches_beyond_node: ClassVar[Callable[..., bool] | None] = None
    """`reaches_beyond_node(self, placed)`: whether a placed pod can change answers about nodes other than its own, even
    for pods for which `looks_beyond_node` is False. Anti-affinity of placed pods does. None: no placed pod can."""

    @abstractmethod
    def looks_beyond_node(self, pod: PodInfo) -> bool:
        """True if the answers for this pod, the one being scheduled, depend on pods on other nodes."""

    @abstractmethod
    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        """Where the placed pod `other` can make the filter reject `pod`, as topology keys. None: on every node.

        A key means the nodes whose label has the same value as the label of `other`'s node; nodes without the label are
        one domain. Empty: nowhere, not even on its own node. Too many domains cost time, too few hide victims.
        """

    @abstractmethod
    def influence_key(self, pod: PodInfo) -> Hashable:
        """The parts of a pod that `influence` reads. Pods with equal keys are compared once."""

    def own_keys(self, pod: PodInfo) -> frozenset[str] | None:
        """The topology keys that `influence` names because of this pod, be it `pod` or `other`.

        None: `influence` may return None because of this pod, or placed pods can also make the filter accept it.
        Returning None is safe, but makes gangs that preempt slow.
        """
        return None


class PreEnqueuePlugin(ExtensionPoint):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None lets the pod enter the active queue; a status keeps it out."""

    def tells_gate(self, pod: PodInfo) -> bool:
        """True if an event on a pod that was kept out says why. No attempt follows that would."""
        return False


class QueueSortPlugin(ExtensionPoint):
    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """The pod with the lowest key is scheduled first. `queued_at`: when it last entered the queue, in seconds."""


class EnqueueExtensions(ExtensionPoint):
    hints_when_disabled: ClassVar[bool] = False
    """True if the hints also count in profiles that do not enable the plugin, because the core does its work in all of
    them.
    """

    @abstractmethod
    def hints(self) -> Sequence[EventHint]:
        """The cluster events that may make a pod schedulable after this plugin rejected it."""


class PreFilterPlugin(ExtensionPoint):
    pre_filter_disabled: ClassVar[Callable[..., Status | None] | None] = None
    """`pre_filter_disabled(pod, cache)`, a static method: runs in profiles that do not enable `pre_filter`. It rejects
    pods that must not be bound without this plugin."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Called once per pod, before the filters. Skip: this plugin's filter need not run."""


class PreFilterExtensions(ExtensionPoint):
    """For PreFilter plugins whose cycle state depends on placed pods. Dry runs call these methods to update the
    state.
    """

    @abstractmethod
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        """The dry run has added a pod to `node`."""

    @abstractmethod
    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        """The dry run has removed a pod from `node`."""


class FilterPlugin(ExtensionPoint):
    filter_all: ClassVar[Callable[[Any, CycleState, PodInfo, NodeTable], FilterResult | None] | None] = None
    """`filter_all(self, state, pod, table)`: the same for all nodes at once; None: all pass."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """None if the pod may run on the node; otherwise why not."""

    def verdict_key(self, pod: PodInfo) -> Hashable | None:
        """The parts of the pod that the verdict reads. None, the default: the core never caches verdicts of this
        filter.

        Only for plugins of scope NODE or NODE_PODS. The core uses a cached verdict for all pods with an equal key until
        the node or a pod on it changes. So the verdict must depend on nothing else, such as other objects of the
        cluster or the time.
        """

    def prepare(self, pod: PodInfo) -> None:
        """Called for each member before a pod group is planned. A long computation whose results are kept may pause
        here, and not in the plan.
        """


class ResourceFilter(FilterPlugin):
    """A filter that rejects nodes with too few free resources, or with the maximum number of pods.

    Gang scheduling uses it to estimate how many members fit on a node. Binding cycles check again before they post the
    Binding.
    """

    @abstractmethod
    def checked_requests(self, requests: Requests) -> Sequence[tuple[str, int]]:
        """The resources that the filter checks, with the amounts that must be free."""


class PostFilterPlugin(ExtensionPoint):
    preempts: ClassVar[bool] = False
    """True if the plugin preempts. Its calls then count as preemption attempts, and pod groups of its profiles preempt,
    too.
    """

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Called if no node is feasible. Finds what could make one feasible."""

    def clear_cache(self) -> None:
        """Drops cached results, so that old pods can be freed. Called while the scheduler is idle."""

    def group_waits(self, state: CycleState, pod: PodInfo) -> Sequence[FollowUp]:
        """Returns the follow-ups for a member of a pod group that is not placed. Changes nothing."""
        return ()


class PreScorePlugin(ExtensionPoint):
    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, feasible: Feasible) -> Status | None:
        """Called once per pod, before scoring. Skip: this plugin's score need not run and counts as 0."""


class ScorePlugin(ExtensionPoint):
    score_all: ClassVar[Callable[[Any, CycleState, PodInfo, Feasible], WholeNumbers | int] | None] = None
    """`score_all(self, state, pod, feasible)`: whole numbers, [feasible], or one number for all of them."""
    normalize: ClassVar[Callable[[Any, CycleState, PodInfo, Any, Feasible], WholeNumbers | int] | None] = None
    """`normalize(self, state, pod, scores, feasible)`: the scores, scaled to 0 to 100; [feasible] or one number."""
    normalizes_numbers: ClassVar[bool] = False
    """True if `normalize` accepts the one number that `score_all` may return. If not, it receives an array of it."""
    zero_stays: ClassVar[bool] = False
    """True if `normalize` makes 0 of the number 0, so that it need not be called for it."""
    keeps_scores: ClassVar[bool] = False
    """True if an array that `score_all` returns where all rows are feasible is kept: the same array, returned again,
    differs only in rows that `usage_changes` logs. A node's score must not depend on which others are feasible. For
    plugins of the core without `normalize`.
    """
    greatest_score: int = MAX_SCORE
    """The greatest score of a node, after `normalize`. Above MAX_SCORE only for plugins of the core that add scores
    with weights of their own.
    """

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How well the node suits the pod: 0 to 100, or any 64-bit number if the plugin defines `normalize`."""


class ReservePlugin(ExtensionPoint):
    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Called after the pod was assumed on the node."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called if the pod will not be bound to the node. Must not fail. `reserve` may not have been called before."""


class PermitPlugin(ExtensionPoint):
    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        """None to approve, a rejection, or Wait with a timeout in seconds."""


class PreBindPlugin(ExtensionPoint):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip: `pre_bind` has nothing to do for this pod."""

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Does the work that must be complete before the pod is bound."""


class BindPlugin(ExtensionPoint):
    @abstractmethod
    async def bind(
        self, state: CycleState, pod: PodInfo, node_name: str, annotations: Mapping[str, str]
    ) -> Status | None:
        """Binds the pod. Skip: the next plugin binds it."""


class PostBindPlugin(ExtensionPoint):
    @abstractmethod
    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called after the pod was bound."""
