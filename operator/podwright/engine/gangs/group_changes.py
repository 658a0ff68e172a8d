"""What is done when a pod group changes, besides trying it: promises of nodes end with it, and its status names its errors.

Groups also change while a plan is tried on the cache, and are then as they were before, so it is looked at what has become of them
in the loop's next turn. Invariant: no member of a group that was complete and is no longer keeps a promise of a node.
"""

from __future__ import annotations

import asyncio

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.object_changes import POD_GONE
from podwright.engine.ports import SCHEDULER_ERROR, Ports, Regarding, Verdict
from podwright.engine.state import EngineState


class GroupChanges:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, foreign_pods: ForeignPods) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._wake = state.wake
        self._status = ports.status
        self._groups = ports.groups
        self._recorder = ports.recorder
        self._foreign_pods = foreign_pods
        self._changed: set[str] = set()
        self._complete: set[str] = set()
        self._idle: set[str] = set()
        """Members of incomplete groups that had the promise of a node at the last look."""
        self._said: dict[str, str] = {}
        """What is wrong with groups, by key."""
        self._due = False
        foreign_pods.listen(self._touch)
        state.cache.groups.listen(self._touch)

    def sweep(self) -> None:
        """Looks at the groups that have changed."""
        changed, self._changed, self._due = self._changed, set(), False
        for key in changed:
            group = self._cache.groups.get(key)
            if group is not None and self._cache.groups.members(key).total >= group.min_count:
                self._complete.add(key)
            elif key in self._complete:
                self._complete.discard(key)
                self._break_promises(key)
            self._name_problem(key, group)

    def look(self) -> None:
        """Promises to members of groups that were incomplete at the last look, too, end: of before a restart, say."""
        nominator, idle = self._cache.nominator, set()
        for pod in [pod for node_name in nominator.nodes() for pod in nominator.on(node_name) if pod.group]:
            if self._cache.groups.is_member(pod) and not self._cache.groups.complete(pod):
                if pod.uid in self._idle:
                    self._break_promise(pod)
                idle.add(pod.uid)
        self._idle = idle

    def _touch(self, key: str) -> None:
        self._changed.add(key)
        if not self._due:
            try:
                asyncio.get_running_loop().call_soon(self.sweep)
            except RuntimeError:
                return  # nothing runs yet
            self._due = True

    def _break_promises(self, key: str) -> None:
        members = self._cache.groups.members(key)
        for pod in members.unplaced():
            self._break_promise(pod)

    def _break_promise(self, pod: PodInfo) -> None:
        node_name = self._cache.nominator.node_of(pod.uid)
        if node_name:
            self._cache.nominator.remove(pod.uid)
            self._status.write(pod, None, "")
            self._queue.move(POD_GONE, pod.on(node_name), None, spare=pod.uid, up_to_priority=pod.priority)
            self._wake()

    def _name_problem(self, key: str, group: PodGroup | None) -> None:
        """In status and events, if pods of ours wait for the group."""
        refused = self._cache.groups.invalid(key)
        odd = group is not None and bool(self._foreign_pods.of(key))
        first = next(iter(self._cache.groups.members(key).unplaced()), None) if refused or odd else None
        if first is None:
            self._said.pop(key, None)
            return
        named, text = (
            (refused[0], str(refused[1])) if refused else (group, self._foreign_pods.problem(key, first.scheduler_name))
        )
        assert named is not None
        self._groups.not_scheduled(named, Verdict(SCHEDULER_ERROR, text))
        if self._said.get(key) != text:
            self._said[key] = text
            regarding = Regarding.group(named, first.scheduler_name)
            self._recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", text)
