"""GangScheduling: members of a pod group wait until enough of them exist, and in Permit until enough have a node.

The gang planner (core/gangs) places them together. kube-scheduler enables the plugin with the gate GenericWorkload;
here it is in the default profile. It does nothing for pods without a pod group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, Literal

from podwright.core.framework.cluster_events import (
    POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
    HintKeys,
)
from podwright.core.framework.interface import CycleState, EnqueueExtensions, PermitPlugin, Plugin, PreEnqueuePlugin
from podwright.core.framework.profile import Profile
from podwright.core.framework.status import Code, Status, unresolvable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import ALL, PodGroup, group_key, parse_pod_group
from podwright.core.objects.resources import is_qualified_name
from podwright.core.state.object_store import key_of

PERMIT_SECONDS: Final = 300.0
"""How long members wait for the others if the group does not set a timeout."""
TOO_FEW: Final = "waiting for minCount pods from a gang to appear in scheduling queue"
NO_PART: Final = "the pod's pod group has no such sub-group"
WAITING: Final = "waiting for minCount pods from a gang to be scheduled"


def group_missing(key: str) -> str:
    """The reason why members of a group wait that does not exist."""
    return f'waiting for pods\'s pod group "{key.rpartition("/")[2]}" to appear in scheduling queue'


@dataclass(frozen=True, slots=True)
class GangSchedulingArgs:
    """`topologyKey`: a node label. Groups are placed in as few of its domains as possible. Empty: no preference.

    `eviction`: which members of a gang preemption evicts. AsDeclared: all, if the group has disruption mode `all`, else
    those that are in the way. Whole: those that are more than the minimum, then all. None: AsDeclared for groups of
    scheduling.k8s.io, Whole for others.

    `minResources`: Required: a group waits, and evicts nobody, until so much is free. Ignored: only the members'
    requests count. None: Ignored for groups of Volcano, Required for others.
    """

    topology_key: str = field(default="", metadata={"name": "topologyKey"})
    eviction: Literal["AsDeclared", "Whole"] | None = None
    min_resources: Literal["Required", "Ignored"] | None = field(default=None, metadata={"name": "minResources"})

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        if self.topology_key and not is_qualified_name(self.topology_key):
            yield f"{where}.topologyKey", f"{self.topology_key!r} is not a label key"


DEFAULT_ARGS: Final = GangSchedulingArgs()


def args_of(profile: Profile) -> GangSchedulingArgs:
    """The plugin's args in this profile."""
    found = profile.args.get(GangScheduling.name)
    return found if isinstance(found, GangSchedulingArgs) else DEFAULT_ARGS


class GangScheduling(Plugin, PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    """See the module."""

    name: ClassVar[str] = "GangScheduling"
    args_type = GangSchedulingArgs

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        groups = self.handle.cache.groups
        if not pod.group or not groups.is_member(pod):
            return None
        group = groups.of(pod)
        if group is None:
            return unresolvable(groups.awaited.get(pod.group) or group_missing(groups.key_of(pod)))
        if group.tree is not None and groups.belongs_nowhere(pod):
            return unresolvable(NO_PART)
        return None if not group.gang or groups.has_minimum(group) else unresolvable(TOO_FEW)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        if not pod.group:
            return None, 0.0
        groups = self.handle.cache.groups
        group = groups.of(pod)
        if group is None or not group.gang or group.key not in groups.starting:
            return None, 0.0
        return Status(Code.WAIT, (WAITING,)), group.schedule_timeout or PERMIT_SECONDS

    def hints(self) -> Sequence[EventHint]:
        group_events = [
            EventHint(ClusterEvent(kind, action), hint, keys=keys)
            for kind in ALL
            for keys in (self._keys(kind),)
            for action, hint in ((Action.ADD, self._group_added(kind)), (Action.UPDATE, self._group_changed(kind)))
        ]
        member_keys = HintKeys(lambda _before, after: self._concerned(after.group), _group_named)
        return (
            EventHint(ClusterEvent(UNSCHEDULED_POD, Action.ADD), self._member_added, keys=member_keys),
            EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL), _changed_group),
            *group_events,
        )

    def _keys(self, kind: str) -> HintKeys:
        def of_event(before: Any, after: Any) -> str | frozenset[str]:
            return self._concerned(group_key(ALL[kind], *key_of(after or before)))

        return HintKeys(of_event, _group_named)

    def _concerned(self, key: str) -> str | frozenset[str]:
        """The keys that the pods name which may start after a change of this group: all of its hierarchy, once that has
        its minimum of members.
        """
        groups = self.handle.cache.groups
        root = groups.get(groups.root_of(key))
        if root is None or not root.composite or not groups.has_minimum(root):
            return key
        return frozenset(groups.keys_below(root))

    def _member_added(self, pod: PodInfo, _before: Any, after: Any) -> Hint:
        key_of_group = self.handle.cache.groups.key_of
        together = pod.group and after is not None and key_of_group(after) == key_of_group(pod)
        return Hint.QUEUE if together else Hint.SKIP

    def _concerns(self, pod: PodInfo, kind: str, raw: Mapping[str, Any]) -> bool:
        """True if the group is that of the pod, or in its hierarchy."""
        groups = self.handle.cache.groups
        return bool(pod.group) and groups.root_of(group_key(ALL[kind], *key_of(raw))) == groups.key_of(pod)

    def _group_added(self, kind: str) -> Any:
        def hint(pod: PodInfo, _before: Any, after: Mapping[str, Any]) -> Hint:
            return Hint.QUEUE if self._concerns(pod, kind, after) else Hint.SKIP

        return hint

    def _group_changed(self, kind: str) -> Any:
        """Helps if the group now needs fewer members, or other resources. A change is looked at for the first of the
        pods: a group may be large, and have many.
        """
        last: tuple[object, object, Hint] = (None, None, Hint.SKIP)

        def hint(pod: PodInfo, before: Mapping[str, Any], after: Mapping[str, Any]) -> Hint:
            nonlocal last
            if not self._concerns(pod, kind, after):
                return Hint.SKIP
            if last[0] is not before or last[1] is not after:
                last = before, after, _helps(kind, before, after)
            return last[2]

        return hint


def _helps(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Hint:
    old, new = _parsed(kind, before), _parsed(kind, after)
    if new is None:
        return Hint.SKIP
    if old is None or new.min_count < old.min_count:
        return Hint.QUEUE
    needs = [(each.tree, each.min_resources, each.resources_problem) for each in (old, new)]
    return Hint.QUEUE if needs[0] != needs[1] else Hint.SKIP


def _group_named(pod: PodInfo) -> Sequence[str]:
    return (pod.group,) if pod.group else ()


def _changed_group(_pod: PodInfo, before: PodInfo, after: PodInfo) -> Hint:
    return Hint.SKIP if before.group == after.group else Hint.QUEUE


def _parsed(kind: str, raw: Mapping[str, Any]) -> PodGroup | None:
    try:
        return parse_pod_group(kind, raw)
    except InvalidObjectError:
        return None
