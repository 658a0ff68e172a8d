"""The events that bring a rejected pod back into the queue, in words, from the queueing hints of the plugins that
rejected it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from podwright.core.framework.cluster_events import (
    ANY,
    ASSIGNED_POD,
    NODE,
    POD,
    SIGNAL,
    TIME,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
)
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod_group import PLUGINS_API, PLUGINS_KIND

_SUBJECTS: Final = {
    ASSIGNED_POD: "a placed pod",
    NODE: "a node",
    POD: "the pod itself",
    UNSCHEDULED_POD: "another member of its group",
    ANY: "anything",
}
_SINGLE: Final = {SIGNAL: "a signal of a node changes", TIME: "the time changes"}
"""Kinds with a single event, whatever actions a plugin registers for."""
_KINDS: Final = {PLUGINS_KIND: f"PodGroup of {PLUGINS_API}"}
_VERBS: Final = {
    Action.ADD: "is added",
    Action.DELETE: "is deleted",
    Action.UPDATE_NODE_ALLOCATABLE: "gets more allocatable resources",
    Action.UPDATE_NODE_LABEL: "gets other labels",
    Action.UPDATE_NODE_TAINT: "gets other taints or is uncordoned",
    Action.UPDATE_NODE_CONDITION: "gets another condition",
    Action.UPDATE_NODE_ANNOTATION: "gets other annotations",
    Action.UPDATE_NODE_IMAGES: "gets other images",
    Action.UPDATE_NODE_DECLARED_FEATURE: "declares other features",
    Action.UPDATE_POD_LABEL: "gets other labels",
    Action.UPDATE_POD_SCALE_DOWN: "requests less",
    Action.UPDATE_POD_SCALE_UP: "requests more",
    Action.UPDATE_POD_TOLERATION: "gets other tolerations",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "loses its scheduling gates",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "gets its resource claim",
}


def events_for(framework: Framework, plugins: Collection[str]) -> tuple[str, ...]:
    """The events for which these plugins have registered, each once. When such an event happens, the plugin decides
    whether it helps.
    """
    found: dict[str, None] = {}
    parts = [
        part for plugin in sorted(plugins) for hint in framework.hints.get(plugin, ()) for part in hint.event.parts
    ]
    for part in sorted(parts, key=lambda part: part.resource not in _SUBJECTS):
        if _can_happen(part):
            found[_words(part)] = None
    return tuple(found)


def _can_happen(event: ClusterEvent) -> bool:
    """False for actions of nodes on pods, and the reverse, which are part of Action.UPDATE."""
    name = event.action.name or ""
    if event.resource in (ANY, *_SINGLE):
        return True
    return not name.startswith("UPDATE_POD_" if event.resource == NODE else "UPDATE_NODE_")


def _words(event: ClusterEvent) -> str:
    if event.resource in _SINGLE:
        return _SINGLE[event.resource]
    subject = _SUBJECTS.get(event.resource)
    if subject is None:
        verb = _VERBS[event.action] if event.action in (Action.ADD, Action.DELETE) else "changes"
        return f"a {_KINDS.get(event.resource, event.resource)} {verb}"
    return f"{subject} {_VERBS.get(event.action, 'changes')}"
