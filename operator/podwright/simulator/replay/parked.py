"""Pods of a replay that wait outside the queue, because only a change of one node can help them.

A crowded cluster has many waiting pods and few kinds of them. The pods of a line differ in nothing that a filter reads,
so where the first one has no room, no other has. When a node changes, the filters of each line run on this node alone,
and the first pod of a line that passes goes back into the queue; when it has landed, the next one. It leaves the queue
without an attempt if a pod of another line takes the room first. A pod is parked only
if the verdicts of its filters may be cached (`FilterPlugin.verdict_key`), and if the pods that land on a node cannot
help it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import field

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.engine.intake.object_changes import ASSIGNED_POD_ADD
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.simulator.loaded import LoadedCluster


@dataclass(slots=True)
class _Line:
    """Pods in the order in which they came. `state`: of the PreFilter of one of them; `message`: of the last rejection.

    `in_queue`: the first pod is in the queue, too. `changed`: the nodes that have changed since it entered.
    """

    framework: Framework
    state: CycleState
    message: str = ""
    pods: dict[str, PodInfo] = field(default_factory=dict)
    in_queue: bool = False
    changed: set[str] = field(default_factory=set)

    @property
    def first(self) -> PodInfo:
        return next(iter(self.pods.values()))


class Parked:
    """See the module. `add` puts a pod into the queue, `remove` takes one out by its uid."""

    def __init__(
        self, cluster: LoadedCluster, add: Callable[[PodInfo], object], remove: Callable[[str], object]
    ) -> None:
        self._cluster = cluster
        self._add = add
        self._remove = remove
        self._lines: dict[Hashable, _Line] = {}
        self._keys: dict[str, Hashable] = {}
        """By uid of a parked pod: the key of its line."""

    def joins(self, pod: PodInfo) -> bool:
        """Parks a pod that has just come if there is a line of such pods. Returns whether there is one."""
        if not self._lines or pod.gates:
            return False
        key, _ = self._key(pod, self._cluster.policy_for(pod))
        if key not in self._lines:
            return False
        self._keys[pod.uid] = key
        self._lines[key].pods[pod.uid] = pod
        return True

    def park(self, pod: PodInfo, plugins: Collection[str], message: str) -> bool:
        """Parks a pod that these plugins have rejected, if only a change of one node can help it. Returns whether it is
        parked.
        """
        if self._cluster.queues.active:
            return False  # a pod of another queue may have room taken back where this one may not
        policy = self._cluster.policy_for(pod)
        hints = (hint for name in plugins for hint in policy.hints.get(name, ()))
        filters = {plugin.name for plugin in policy.framework.filter_plugins}
        if pod.group or not filters.issuperset(plugins) or any(each.event.matches(ASSIGNED_POD_ADD) for each in hints):
            self._dissolve(pod)
            return False
        key = self._keys.get(pod.uid)
        if key is None:
            key, state = self._key(pod, policy)
            if key is None:
                return False
            self._keys[pod.uid] = key
            self._lines.setdefault(key, _Line(policy.framework, state)).pods[pod.uid] = pod
        line = self._lines[key]
        line.message = message
        if line.first.uid == pod.uid:
            line.in_queue = False
            line.changed.clear()
        return True

    def node_changed(self, name: str) -> None:
        """A pod has left the node, or the node itself has changed."""
        for line in self._lines.values():
            self._wake(line, name)

    def gone(self, uid: str, node_name: str = "") -> None:
        """A pod that may be parked has left, or has landed on a node, where the next one may fit, too, and pods of
        other lines may not fit any more.
        """
        self._withdraw(self._keys.get(uid), node_name)
        key = self._keys.pop(uid, None)
        if key is None:
            return
        line = self._lines[key]
        was_first = line.first.uid == uid
        del line.pods[uid]
        if not line.pods:
            del self._lines[key]
        elif was_first and line.in_queue:
            line.in_queue, changed, line.changed = False, line.changed, set()
            for name in sorted(changed | {node_name}):
                self._wake(line, name)

    def why_waits(self, uid: str) -> str | None:
        """The message of the last rejection of a pod in this pod's line; None if the pod is not parked."""
        key = self._keys.get(uid)
        return None if key is None else self._lines[key].message

    def _dissolve(self, pod: PodInfo) -> None:
        """Puts the other pods of this pod's line into the queue: more than one node decides about them now."""
        if pod.uid in self._keys:
            line = self._lines.pop(self._keys[pod.uid])
            for uid, each in line.pods.items():
                del self._keys[uid]
                if uid != pod.uid:
                    self._add(each)

    def _wake(self, line: _Line, name: str) -> None:
        if line.in_queue:
            line.changed.add(name)
            return
        if self._may_help(line, name):
            line.in_queue = True
            line.changed.add(name)
            self._add(line.first)

    def _withdraw(self, landed: Hashable, name: str) -> None:
        """Takes pods out of the queue that no changed node can help any more, as a pod of the line `landed` took it."""
        for key, line in self._lines.items():
            if key != landed and name in line.changed and not self._may_help(line, name):
                line.changed.discard(name)
                if not line.changed:
                    line.in_queue = False
                    self._remove(line.first.uid)

    def _may_help(self, line: _Line, name: str) -> bool:
        """True if the first pod of the line passes its filters on this node, or may preempt there."""
        node, pod = self._cluster.cache.present(name), line.first
        if node is None or node.node is None:
            return False
        preempts = pod.preemption_policy != "Never" and any(each.priority < pod.priority for each in node.pods.values())
        return preempts or line.framework.filter_node_with_nominated(line.state, pod, node) is None

    def _key(self, pod: PodInfo, policy: ActivePolicy) -> tuple[Hashable | None, CycleState]:
        """Returns the filters' inputs from the pod, None if their verdicts depend on more; and the state of its
        PreFilter. Raises PluginError.
        """
        state = CycleState()
        rejected = policy.framework.pre_filter(state, pod).status is not None
        verdict = None if rejected else policy.framework.verdict_key(state, pod)
        return None if verdict is None else (policy.framework, verdict, pod.preemption_policy), state
