"""The typed parts of an explanation, the same for the terminal, JSON, YAML, the library and the operator's page.

`as_object` gives the JSON form: camelCase, without fields that are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from podwright.core.framework.args import key_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.simulator.queue_rows import QueueRow


class PodState(Enum):
    """The state of a pod."""

    PLACED = "Placed"
    PENDING = "Pending"
    GATED = "Gated"
    """A PreEnqueue plugin keeps it out of the queue."""
    IGNORED = "Ignored"
    """No policy serves its scheduler name."""
    WAITS_FOR_POLICY = "WaitsForPolicy"
    TERMINATING = "Terminating"
    FINISHED = "Finished"
    FITS = "Fits"
    """It is pending, and a node is feasible now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why the pod is not on a node. `reason` is one word for programs, `text` a sentence that names the objects.

    `plugin`: the plugin that rejects, if one does. `nodes`: how many nodes it concerns.
    """

    reason: str
    text: str
    plugin: str = ""
    nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRef:
    """A policy and its generation."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The nodes that one plugin rejected first, for one reason. `only`: how many of them no other plugin rejects.

    `examples`: names of some of the nodes, the nearest first. `resolvable`: evicting pods may help.
    """

    plugin: str
    reason: str
    nodes: int
    only: int
    examples: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why one plugin rejects one node. `detail` names the objects and the amounts."""

    plugin: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A node that almost fits, with all its problems."""

    node: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that preemption would evict."""

    pod: str
    priority: int


def victims_of(pods: Iterable[PodInfo]) -> tuple[Victim, ...]:
    """Returns the pods in the form of results."""
    return tuple(Victim(pod=pod.key, priority=pod.priority) for pod in pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionFound:
    """The result of preemption. `node` is empty if no eviction helps. `violations`: how many evictions break a
    PodDisruptionBudget.
    """

    message: str
    node: str = ""
    victims: tuple[Victim, ...] = ()
    violations: int = 0
    candidates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginScore:
    """A plugin's normalised score, 0 to 100, for the chosen node and the runner-up, before the weight."""

    plugin: str
    weight: int
    chosen: int
    runner_up: int | None = None

    @property
    def difference(self) -> int:
        """The plugin's weighted score of the chosen node minus that of the runner-up."""
        return 0 if self.runner_up is None else self.weight * (self.chosen - self.runner_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of the chosen node and the runner-up. `feasible`: how many nodes passed all filters.

    `decisive`: the plugins that made the difference, the strongest first.
    """

    node: str
    total: int | None
    runner_up: str = ""
    runner_up_total: int | None = None
    feasible: int = 0
    plugins: tuple[PluginScore, ...] = ()
    decisive: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An earlier decision: from the pod's annotation, or from the operator's recent decisions.

    `rejected`: how many nodes each plugin rejected. `at`: when, in RFC 3339; empty if that is not known.
    """

    outcome: str
    policy: PolicyRef | None = None
    node: str = ""
    score: int | None = None
    runner_up: str = ""
    runner_up_score: int | None = None
    evaluated: int = 0
    feasible: int = 0
    rejected: Mapping[str, int] | None = None
    message: str = ""
    at: str = ""
    instance: str = ""
    reasons: Mapping[str, Mapping[str, int]] | None = None
    """By plugin, how many nodes had each reason."""
    plugins: tuple[PluginScore, ...] = ()
    nominated: str = ""
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The pod in the operator's queue. Seconds count from now. `ahead`: how many active pods come before it.

    `tried_in`: the longest time until the next attempt; None if only an event can start one, or if it is being tried.
    """

    place: str
    attempts: int
    waited: float
    tried_in: float | None = None
    ahead: int | None = None
    rejected_by: tuple[str, ...] = ()
    gated_by: str = ""
    costly: bool = False
    workload: str = ""
    """Its group, if a WorkloadGrouping has made it, and how many of its pods there are: only the operator knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a waiting pod, or its group, could start. `at`: in RFC 3339; empty if that is not known, and `text` says
    why.
    """

    text: str
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An object to create, to patch (a JSON merge patch) or to replace, or a pod to delete so that it starts
    elsewhere.
    """

    verb: str
    kind: str
    name: str
    namespace: str = ""
    object: Mapping[str, Any] | None = None
    node: str = ""
    """The node to which a moved pod fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with which the production core places the pod. `of`: `pod` or `cluster`. `node`: where the pod goes
    then.

    `after_preemption`: with the change, the pod is nominated and evicts `victims` first. `violations`: how many of
    these evictions break a PodDisruptionBudget.
    """

    of: str
    text: str
    node: str
    edits: tuple[Edit, ...]
    after_preemption: bool = False
    victims: tuple[Victim, ...] = ()
    violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that is known about one pod or group. `message`: the scheduler's text in the event FailedScheduling.

    `causes`: the true cause first. `events`: the ones that bring the pod back into the queue.
    """

    kind: str
    name: str
    state: PodState
    causes: tuple[Cause, ...] = ()
    policy: PolicyRef | None = None
    message: str = ""
    node: str = ""
    nodes: int = 0
    feasible: int = 0
    rejections: tuple[Rejected, ...] = ()
    nearest: tuple[Miss, ...] = ()
    preemption: PreemptionFound | None = None
    scores: Scores | None = None
    decisions: tuple[Recorded, ...] = ()
    queue: QueuePlace | None = None
    events: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    start: Start | None = None
    notes: tuple[str, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The true cause."""
        return self.causes[0] if self.causes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCause:
    """A cause that several pods of a workload have. `examples`: names of some of them; empty if the pods do not
    exist.
    """

    reason: str
    text: str
    pods: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadExplanation:
    """The pods of a deployment, a job, a pod group or a queue. `nodes`: how many pods each node has. `queue`: the queue
    and those below it.

    `causes`: why pods do not exist, then why pods wait, the most frequent cause first. `first`: the explanation of the
    first pod that waits, or else of the first pod that is placed.
    """

    kind: str
    name: str
    pods: int
    placed: int
    waiting: int
    nodes: Mapping[str, int]
    causes: tuple[SharedCause, ...] = ()
    first: Explanation | None = None
    notes: tuple[str, ...] = ()
    queue: tuple[QueueRow, ...] = ()


def as_object(value: Any) -> Any:
    """The JSON form of a result."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, QueueRow):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((key_of(each), as_object(getattr(value, each.name))) for each in fields(value))
        return {key: found for key, found in pairs if found is not None and found not in ("", [], {})}
    if isinstance(value, Mapping):
        return {str(key): as_object(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [as_object(each) for each in value]
    return value
