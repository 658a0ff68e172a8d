"""Turns the difference between two versions of an object into the cluster event for queueing hints.

None means that nothing relevant to scheduling has changed. The actions are those of kube-scheduler's queueing hints
(KEP-4247).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.updates import resize

NODE_ADD: Final = ClusterEvent(NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(NODE, Action.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(UNSCHEDULED_POD, Action.ADD)
ASSIGNED_POD_ADD: Final = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_OTHER)
ASSIGNED_POD_DELETE: Final = ClusterEvent(ASSIGNED_POD, Action.DELETE)


def node_event(before: Node | None, after: Node) -> ClusterEvent | None:
    """The event for a node that was added or updated."""
    if before is None:
        return NODE_ADD
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
    if before.images != after.images:
        action |= Action.UPDATE_NODE_IMAGES
    if before.declared_features != after.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return ClusterEvent(NODE, action) if action else None


def same_node(before: Node, after: Node) -> bool:
    """True if nothing that the cache keeps of a node has changed, as in a heartbeat."""
    return (
        node_event(before, after) is None
        and before.uid == after.uid
        and before.unschedulable == after.unschedulable
        and before.terminating == after.terminating
    )


def assigned_pod_event(before: PodInfo | None, after: PodInfo) -> ClusterEvent | None:
    """The event for an assigned pod that was added or updated."""
    if before is None:
        return None if after.finished else ASSIGNED_POD_ADD
    if after.finished:
        return ASSIGNED_POD_DELETE
    action = Action(0)
    if before.labels is not after.labels:
        action |= Action.UPDATE_POD_LABEL
    action |= resize(before, after)
    if before.terminating != after.terminating:
        action |= Action.UPDATE_POD_OTHER
    return ClusterEvent(ASSIGNED_POD, action) if action else None


def has_other_update(before: PodInfo, after: PodInfo) -> bool:
    """True if something has changed that plugins see but no specific event covers: the pod was started, for example."""
    return before.phase != after.phase or before.start_time != after.start_time or before.preempted != after.preempted


def object_event(kind: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ClusterEvent:
    """The event for an object of the object store."""
    if before is None:
        return ClusterEvent(kind, Action.ADD)
    return ClusterEvent(kind, Action.UPDATE_OTHER if after is not None else Action.DELETE)
