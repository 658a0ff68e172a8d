"""The annotation `podwright.dev/decision`: why a pod is on its node, in a few hundred bytes of JSON for people and
tools.

The Binding carries it, and the API server merges a Binding's annotations into the pod, so it costs no request of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from podwright.api.compile import CompiledPolicy
from podwright.core.cycle import Placement
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import Queues

ANNOTATION: Final = "podwright.dev/decision"
DEVICES_NAMED: Final = 32
"""How many devices an annotation or an event names: a pod may have thousands."""
_NONE: Final[Mapping[str, Any]] = {}


def annotations_of(
    pod: PodInfo, policy: CompiledPolicy, placement: Placement, instance: str, queues: Queues
) -> dict[str, str]:
    """Policy and generation, the node and its score, the runner-up, how many nodes were evaluated and feasible, and how
    many each plugin rejected. The score is left out if only one node is feasible, because Score does not run then. For
    a pod with devices, the first of these, and how many more there are (`moreDevices`). The queue, and what names it
    (`queueFrom`: label, annotation, group, policy or namespace), and the flavors of the node in which the pod counts.
    Also the process that decided (`instance`), and the pod's uid: in a copy of the pod, the annotation means nothing.
    """
    decision: dict[str, Any] = {
        "policy": policy.name,
        "generation": policy.generation,
        "node": placement.node_name,
        "nodes": placement.evaluated,
        "feasible": placement.feasible,
    }
    if placement.score is not None:
        decision["score"] = placement.score
    if placement.runner_up is not None:
        decision["runnerUp"] = {"node": placement.runner_up[0], "score": placement.runner_up[1]}
    rejected = {plugin: count for plugin, count in placement.rejected.items() if count}
    if rejected:
        decision["rejected"] = rejected
    if devices := placement.state.devices:
        decision["devices"] = devices[:DEVICES_NAMED]
        if len(devices) > DEVICES_NAMED:
            decision["moreDevices"] = len(devices) - DEVICES_NAMED
    if queues.active and (queue := queues.queue_of(pod)):
        decision["queue"], decision["queueFrom"] = queue, queues.source_of(pod)
        if flavors := queues.flavors_on(pod, placement.node_name):
            decision["flavors"] = flavors
    decision["uid"] = pod.uid
    decision["instance"] = instance
    return {ANNOTATION: orjson.dumps(decision).decode()}


def decision_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the decision in this pod's annotation; empty if it is missing or copied from another pod. Never raises,
    whatever the object contains.
    """
    try:
        metadata = raw["metadata"]
        decision = orjson.loads(metadata["annotations"][ANNOTATION])
        return decision if decision["uid"] == metadata["uid"] else _NONE
    except (KeyError, TypeError, ValueError):
        return _NONE


def decided_by(raw: Mapping[str, Any]) -> str:
    """The instance whose decision bound this pod; empty if it was bound otherwise. Never raises, whatever the object
    contains.
    """
    return str(decision_of(raw).get("instance") or "")
