"""What changed between two versions of an object, as the cluster events that queueing hints are registered for.

None: nothing that scheduling looks at. The actions are those of kube-scheduler's queueing hints (KEP-4247).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.updates import resize

NODE_ADDED: Final = ClusterEvent(NODE, Action.ADD)
NODE_DELETED: Final = ClusterEvent(NODE, Action.DELETE)
MEMBER_ADDED: Final = ClusterEvent(UNSCHEDULED_POD, Action.ADD)
POD_ASSIGNED: Final = ClusterEvent(ASSIGNED_POD, Action.ADD)
POD_WENT_ON: Final = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_OTHER)
POD_GONE: Final = ClusterEvent(ASSIGNED_POD, Action.DELETE)


def node_event(before: Node | None, after: Node) -> ClusterEvent | None:
    """The event for a node that came or changed."""
    if before is None:
        return NODE_ADDED
    action = Action(0)
    if before.taints != after.taints or (before.unschedulable and not after.unschedulable):
        action |= Action.UPDATE_NODE_TAINT
    if before.allocatable != after.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if before.labels != after.labels:
        action |= Action.UPDATE_NODE_LABEL
    if before.conditions != after.conditions:
        action |= Action.UPDATE_NODE_CONDITION
    if before.annotations != after.annotations:
        action |= Action.UPDATE_NODE_ANNOTATION
    if before.declared_features != after.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return ClusterEvent(NODE, action) if action else None


def same_node(before: Node, after: Node) -> bool:
    """Nothing that the cache holds of a node changed: a heartbeat, say."""
    return (
        node_event(before, after) is None
        and before.uid == after.uid
        and before.unschedulable == after.unschedulable
        and before.images == after.images
        and before.terminating == after.terminating
    )


def assigned_pod_event(before: PodInfo | None, after: PodInfo) -> ClusterEvent | None:
    """The event for a pod with a node that came or changed."""
    if before is None:
        return None if after.finished else POD_ASSIGNED
    if after.finished:
        return POD_GONE
    action = Action(0)
    if before.labels is not after.labels:
        action |= Action.UPDATE_POD_LABEL
    action |= resize(before, after)
    if before.terminating != after.terminating:
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(ASSIGNED_POD, action) if action else None


def went_on(before: PodInfo, after: PodInfo) -> bool:
    """Something changed of a pod with a node that has no event of its own, but that plugins see: it was started, say."""
    return before.phase != after.phase or before.start_time != after.start_time or before.preempted != after.preempted


def object_event(kind: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ClusterEvent:
    """The event for an object of the store."""
    if before is None:
        return ClusterEvent(kind, Action.ADD)
    return ClusterEvent(kind, Action.UPDATE_OTHER if after is not None else Action.DELETE)
