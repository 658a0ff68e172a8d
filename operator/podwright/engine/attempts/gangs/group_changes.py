"""Handles changes of pod groups, apart from attempts: clears nominations, gives members the priority of the class that
their group names, puts them into another group if other APIs are served, and reports errors of groups, and groups that
stay incomplete.

Groups also change while a plan is tried on the cache, and are then rolled back. So changes are processed in the loop's
next iteration. Invariant: no member of a group that is no longer complete keeps its nomination. A group may have
thousands of members, so what each of them needs is done in steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import islice
from math import inf
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.raw import shortened
from podwright.core.plugins.gang_scheduling import TOO_FEW, group_missing
from podwright.core.state.levels import EXISTING
from podwright.engine.intake.foreign_pods import ForeignPods
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.intake.pending_pods import TWO_GROUPS
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Ports, Regarding, Verdict
from podwright.engine.process.steps import SLICE_SECONDS
from podwright.engine.state import EngineState

INCOMPLETE_SECONDS: Final = 10.0
"""How long a group may stay incomplete before that is reported: its controller may still be creating pods."""
CLASS_NOT_FOUND: Final = "PriorityClassNotFound"
"""The reason of the event for a group that names a PriorityClass which does not exist."""
RANKED_AT_ONCE: Final = 64
"""How many members get another priority in one step."""


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
        self._behind: set[str] = set()
        """The keys of reported composite groups that have changed: their conditions, which may be thousands, keep up in
        the next round.
        """
        self._clock = state.clock
        self._reported: dict[str, str] = {}
        """The last reported errors of groups, by key."""
        self._without_class: dict[str, float] = {}
        """When groups with waiting pods were found to name a PriorityClass that does not exist, by key, until their
        members are gone, too; infinite once that has been reported.
        """
        self._priorities: dict[str, int] = {}
        """The priorities that members have of the classes that their groups name, by key of the group."""
        self._unranked: dict[str, None] = {}
        """Uids of members that may have another priority, or another group, now."""
        self._losing: dict[str, PodInfo] = {}
        """By uid: members of groups that were found incomplete, which lose their nominations."""
        self._freed: dict[str, PodInfo] = {}
        """By uid: nominated members whose priority has fallen, so that they keep fewer pods off their node. Also, by
        the keys of their groups, members with a node whose priority has fallen, so that more pods may preempt them.
        """
        self._scheduled = False
        foreign_pods.listen(lambda key: self._group_changed(state.cache.groups.root_of(key)))
        state.cache.groups.listen(self._group_changed)
        state.cache.groups.listen_to_apis(self._apis_changed)

    def process(self) -> None:
        """Processes the groups that have changed since the last call."""
        changed, self._changed, self._scheduled = self._changed, set(), False
        for key in changed:
            group = self._cache.groups.get(key)
            if group is not None and self._cache.groups.has_minimum(group):
                self._complete.add(key)
            elif key in self._complete:
                self._complete.discard(key)
                self._losing.update((pod.uid, pod) for pod in self._cache.groups.members(key).unplaced())
            self._report_error(key, group)
            self._note_incomplete(key, group)
            self._note_class(key, group)
        self._rank_some()
        self._retry_some()

    async def rank_all(self) -> None:
        """Gives the members that may have another priority now that priority, in steps."""
        for _ in range(0, len(self._unranked), RANKED_AT_ONCE):
            self._rank_some()
            await asyncio.sleep(0)

    def clear_stale_nominations(self) -> None:
        """Clears nominations of members whose group was incomplete in the last call, too. A restart may leave such
        ones.
        """
        nominator, incomplete = self._cache.nominator, set()
        for pod in [pod for node_name in nominator.nodes() for pod in nominator.on(node_name) if pod.group]:
            if self._cache.groups.is_member(pod) and not self._cache.groups.complete(pod):
                if pod.uid in self._incomplete_nominated:
                    self._losing[pod.uid] = pod
                incomplete.add(pod.uid)
        self._incomplete_nominated = incomplete
        self._call_soon()

    def report_incomplete(self) -> None:
        """Reports each missing or incomplete group for which pods have waited for INCOMPLETE_SECONDS, in one event, and
        each PriorityClass that is missing for as long, if they are read. Call it in each round of housekeeping.
        """
        now = self._clock()
        for key in [key for key, since in self._without_class.items() if since + INCOMPLETE_SECONDS <= now]:
            if self._cache.groups.knows_classes and self._report_class(key):
                self._without_class[key] = inf
        for key in [key for key, since in self._incomplete.items() if since + INCOMPLETE_SECONDS <= now]:
            members = self._cache.groups.members(key).unplaced()
            self._incomplete[key] = inf
            if members and key not in self._reported:
                text, group, first = self._why_incomplete(key), self._cache.groups.get(key), members[0]
                regarding = first if group is None else Regarding.group(group, first.scheduler_name)
                self._recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", text)
                self._note_incomplete(key, group)
        behind, self._behind = self._behind, set()
        for key in behind:
            group = self._cache.groups.get(key)
            if group is not None and self._incomplete.get(key) == inf and key not in self._reported:
                self._keep_up(group)

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
            if group.composite:
                self._behind.add(key)
            else:
                self._keep_up(group)

    def _note_class(self, key: str, group: PodGroup | None) -> None:
        """Notes whether the class that the group names is missing."""
        members = self._cache.groups.members(key)
        if key in self._priorities or (group is None and members.empty):
            self._without_class.pop(key, None)
        elif group is not None and group.priority_class and members.waiting:
            self._without_class.setdefault(key, self._clock())

    def _report_class(self, key: str) -> bool:
        """True if there is a pod that waits."""
        group, first = self._cache.groups.get(key), next(iter(self._cache.groups.members(key).waiting.values()), None)
        if group is None or not group.priority_class or first is None:
            return False
        named = shortened(group.priority_class)
        text = f"spec.priorityClassName: there is no PriorityClass {named}, so the pods have their own priorities"
        regarding = Regarding.group(group, first.scheduler_name)
        self._recorder.record(regarding, "Warning", CLASS_NOT_FOUND, "Scheduling", text)
        return True

    def _rank_some(self) -> None:
        for uid in [*islice(self._unranked, RANKED_AT_ONCE)]:
            del self._unranked[uid]
            self._rank(uid)
        if self._unranked:
            self._call_soon()

    def _rank(self, uid: str) -> None:
        """Gives a member the group and the priority that it has now."""
        groups, nominator = self._cache.groups, self._cache.nominator
        queued, placed = self._queue.get(uid), self._cache.placement(uid)
        if placed is not None and (there := groups.ranked(placed.pods[uid])) is not (known := placed.pods[uid]):
            self._cache.replace_pod(there)
            if there.priority < known.priority:
                self._freed[there.group] = there.on(placed.name)
        if queued is None or (pod := groups.ranked(queued.pod)) is queued.pod:
            return
        before = queued.pod
        groups.add_waiting(pod)
        self._queue.update(pod)
        self._queue.reconsider(uid)
        if pod.group != before.group and (text := groups.contradiction(pod)):
            self._recorder.record(pod, "Warning", TWO_GROUPS, "Scheduling", text)
        if node_name := nominator.node_of(uid):
            nominator.add(pod, node_name)
            if pod.priority < before.priority:
                highest = max(before, self._freed.get(uid, before), key=lambda each: each.priority)
                self._freed[uid] = highest.on(node_name)
        self._wake()

    def _retry_some(self) -> None:
        """Ends nominations and retries other pods, for a slice. A pod that may preempt members must not be tried before
        all of them have their priority.
        """
        ends = self._clock() + SLICE_SECONDS
        while self._losing or (self._freed and not self._unranked):
            if self._losing:
                _, pod = self._losing.popitem()
                if not self._cache.groups.complete(pod):
                    self._clear_nomination(pod)
            else:
                uid, pod = self._freed.popitem()
                behind = self._cache.nominator.highest_behind(pod) if uid == pod.uid else None
                self._queue.move(ASSIGNED_POD_DELETE, pod, None, exclude=pod.uid, up_to_priority=behind)
                self._wake()
            if self._clock() >= ends:
                break
        if self._losing or self._freed:
            self._call_soon()

    def _keep_up(self, group: PodGroup) -> None:
        verdict = Verdict(UNSCHEDULABLE, self._why_incomplete(group.key))
        for named in self._cache.groups.named_by_pods(group):
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
        groups = self._cache.groups
        if (priority := groups.class_priority(key)) != self._priorities.get(key):
            if priority is None:
                del self._priorities[key]
            else:
                self._priorities[key] = priority
            members = groups.members(key)
            self._unranked.update(dict.fromkeys((*members.waiting, *members.placed)))
        self._changed.add(key)
        self._call_soon()

    def _apis_changed(self, concerned: Collection[str]) -> None:
        self._unranked.update(dict.fromkeys(concerned))
        self._call_soon()

    def _call_soon(self) -> None:
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
        """Reports an invalid group, or foreign pods in it, in its status and an event, if pods that we schedule wait
        for the group.
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
