"""The check of a pod on a node, and the exception that tells why a candidate leads to no step."""

from __future__ import annotations

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo


class Refused(Exception):  # noqa: N818 -- an outcome
    """The candidate leads to no moves. The message says why."""


def passes(framework: Framework, pod: PodInfo, state: CycleState, info: NodeInfo, *, alone: bool = False) -> bool:
    """True if the pod passes all filters on the node. `alone`: without the pods that are nominated to it. Raises
    PluginError.
    """
    outcome = framework.pre_filter(state, pod)
    if outcome.status is not None or (outcome.node_names is not None and info.name not in outcome.node_names):
        return False
    check = framework.filter_node if alone else framework.filter_node_with_nominated
    return check(state, pod, info) is None
