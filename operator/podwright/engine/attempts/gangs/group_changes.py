"""Handles changes of pod groups, apart from attempts: clears nominations, and reports errors of groups, and groups that
stay incomplete.

Groups also change while a plan is tried on the cache, and are then rolled back. So changes are processed in the loop's
next iteration. Invariant: no member of a group that is no longer complete keeps its nomination.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import TOO_FEW, group_missing
from podwright.core.state.levels import EXISTING
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Ports, Regarding, Verdict
from podwright.engine.state import EngineState

INCOMPLETE_SECONDS: Final = 10.0
"""How long a group may stay incomplete before that is reported: its controller may still be creating pods."""


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
        self._incomplete_nominated: set[str] = set()
        """Uids of nominated members of groups that the last `clear_stale_nominations` found incomplete."""
        self._incomplete: dict[str, float] = {}
        """When groups with waiting pods were found missing or incomplete, by key; infinite once that has been reported.
        """
        self._clock = state.clock
        self._reported: dict[str, str] = {}
        """The last reported errors of groups, by key."""
        self._scheduled = False
        foreign_pods.listen(lambda key: self._group_changed(state.cache.groups.root_of(key)))
        state.cache.groups.listen(self._group_changed)

    def process(self) -> None:
        """Processes the groups that have changed since the last call."""
        changed, self._changed, self._scheduled = self._changed, set(), False
        for key in changed:
            group = self._cache.groups.get(key)
            if group is not None and self._cache.groups.has_minimum(group):
                self._complete.add(key)
            elif key in self._complete:
                self._complete.discard(key)
                for pod in self._cache.groups.members(key).unplaced():
                    self._clear_nomination(pod)
            self._report_error(key, group)
            self._note_incomplete(key, group)

    def clear_stale_nominations(self) -> None:
        """Clears nominations of members whose group was incomplete in the last call, too. A restart may leave such
        ones.
        """
        nominator, incomplete = self._cache.nominator, set()
        for pod in [pod for node_name in nominator.nodes() for pod in nominator.on(node_name) if pod.group]:
            if self._cache.groups.is_member(pod) and not self._cache.groups.complete(pod):
                if pod.uid in self._incomplete_nominated:
                    self._clear_nomination(pod)
                incomplete.add(pod.uid)
        self._incomplete_nominated = incomplete

    def report_incomplete(self) -> None:
        """Reports each missing or incomplete group for which pods have waited for INCOMPLETE_SECONDS, in one event."""
        now = self._clock()
        for key in [key for key, since in self._incomplete.items() if since + INCOMPLETE_SECONDS <= now]:
            members = self._cache.groups.members(key).unplaced()
            self._incomplete[key] = inf
            if members and key not in self._reported:
                text, group, first = self._why_incomplete(key), self._cache.groups.get(key), members[0]
                regarding = first if group is None else Regarding.group(group, first.scheduler_name)
                self._recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", text)
                self._note_incomplete(key, group)

    def _note_incomplete(self, key: str, group: PodGroup | None) -> None:
        """Notes when a group was found incomplete. The condition of one that was reported keeps up with its members,
        unless it has an error.
        """
        groups = self._cache.groups
        total = groups.members(key).total
        waiting = total > groups.placed(key) and groups.invalid(key) is None and key.partition(":")[0] in groups.served
        if not waiting or (group is not None and (not group.gang or groups.has_minimum(group))):
            self._incomplete.pop(key, None)
        elif self._incomplete.setdefault(key, self._clock()) == inf and group is not None and key not in self._reported:
            verdict = Verdict(UNSCHEDULABLE, self._why_incomplete(key))
            for named in groups.named_by_pods(group):
                self._groups.not_scheduled(named, verdict)
                self._groups.below_minimum(named, verdict)

    def _why_incomplete(self, key: str) -> str:
        group = self._cache.groups.get(key)
        if group is None:
            return self._cache.groups.awaited.get(key) or group_missing(key)
        members = self._cache.groups.members(key)
        if members.levels is not None:
            return f"{TOO_FEW}: {members.levels.root.why_unmet(EXISTING)}"
        return f"{TOO_FEW}: {members.total} of {group.min_count} exist"

    def _group_changed(self, key: str) -> None:
        self._changed.add(key)
        if not self._scheduled:
            try:
                asyncio.get_running_loop().call_soon(self.process)
            except RuntimeError:
                return  # no event loop runs yet
            self._scheduled = True

    def _clear_nomination(self, pod: PodInfo) -> None:
        node_name = self._cache.nominator.node_of(pod.uid)
        if node_name:
            self._cache.nominator.remove(pod.uid)
            self._status.write(pod, None, "")
            behind = self._cache.nominator.highest_behind(pod)
            self._queue.move(ASSIGNED_POD_DELETE, pod.on(node_name), None, exclude=pod.uid, up_to_priority=behind)
            self._wake()

    def _report_error(self, key: str, group: PodGroup | None) -> None:
        """Reports an invalid group, or foreign pods in it, in its status and an event, if pods of ours wait for the
        group.
        """
        invalid = self._cache.groups.invalid(key)
        named = self._cache.groups.named_by_pods(group) if group is not None and self._foreign_pods else []
        has_foreign_pods = any(self._foreign_pods.of(each.key) for each in named)
        waiting = self._cache.groups.members(key).unplaced() if invalid or has_foreign_pods else []
        if not waiting:
            self._reported.pop(key, None)
            return
        scheduler_name = waiting[0].scheduler_name
        if invalid is not None:
            group, text = invalid[0], str(invalid[1])
        else:
            problems = (self._foreign_pods.problem(each.key, scheduler_name) for each in named)
            text = next(filter(None, problems))
        assert group is not None
        for each in self._cache.groups.named_by_pods(group):
            self._groups.not_scheduled(each, Verdict(SCHEDULER_ERROR, text))
        if self._reported.get(key) != text:
            self._reported[key] = text
            regarding = Regarding.group(group, scheduler_name)
            self._recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", text)
