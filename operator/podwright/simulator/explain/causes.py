"""The causes in words: one for each group of rejections, the nearest nodes first, so that the true cause comes first.
What a plugin's rejection means, the plugin says itself.

Each cause has a reason for programs, which is one word, and a sentence that names the objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podwright.core.framework.contract import said
from podwright.core.framework.explaining import Why
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Plugin
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import counted, listed
from podwright.core.queues.queues import QUEUE_QUOTA, queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import reservation_of
from podwright.simulator.explain.queue_causes import cause_of
from podwright.simulator.explain.results import Cause, Miss, Problem, Rejected
from podwright.simulator.explain.verdicts import Verdicts, verdict


def causes_of(
    framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, groups: Sequence[Rejected]
) -> tuple[Cause, ...]:
    """The causes of a rejection, the true one first."""
    status = verdicts.diagnosis.pre_filter
    if status is not None and status.plugin == QUEUE_QUOTA:
        return (cause_of(queues_of(cache), pod, status.message, cache.table.count),)
    if status is not None:
        return (why_nowhere(framework, pod, status, cache.table.count),)
    return tuple(_of_group(framework, cache, pod, verdicts, group) for group in groups)


def miss(framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, row: int) -> Miss:
    """All problems that keep the pod off the node in this row. Raises PluginError."""
    node = cache.node_at(row)
    problems = []
    for plugin in framework.filter_plugins:
        mask = verdicts.rejects.get(plugin.name)
        if mask is None or not mask[row]:
            continue
        status = verdict(plugin, verdicts.state, pod, node)
        if status is not None:
            message = ", ".join(status.reasons)
            detail = _why_not_here(framework, plugin.name, pod, node, message).detail
            problems.append(Problem(plugin=plugin.name, reason=message, detail=detail))
    if not problems and (first := verdicts.diagnosis.status_of(row)) is not None:
        reason, detail = ", ".join(first.reasons), ""
        others = framework.nominated_before(pod, node.name)
        if others and row in verdicts.diagnosis.explicit:
            detail = _kept(others)
        problems.append(Problem(plugin=first.plugin, reason=reason, detail=detail))
    return Miss(node=node.name, problems=tuple(problems))


def _kept(nominated: Sequence[PodInfo]) -> str:
    """For whom the room is kept: nominated pods, and Reservations."""
    names = (f"Reservation {name}" if (name := reservation_of(each)) else each.key for each in nominated)
    return f"its room is kept for {listed([*dict.fromkeys(names)])}, nominated there"


def why_nowhere(framework: Framework, pod: PodInfo, status: Status, nodes: int, *, gated: str = "") -> Cause:
    """Why PreFilter rejects the pod on all nodes, or PreEnqueue gates it. `gated`: what to say if the gating plugin
    says nothing.
    """
    plugin: Any = framework.plugins.get(status.plugin)
    why = Why()
    if isinstance(plugin, Plugin):
        why = said(plugin, "why_nowhere", lambda: Why(*plugin.why_nowhere(pod, status.message)), Why())
    return Cause(
        reason=why.reason or ("Gated" if gated else _reason(plugin) or "Rejected"),
        text=why.text or gated or f"{status.plugin} rejects the pod on all nodes: {status.message}",
        plugin=status.plugin,
        nodes=nodes,
    )


def _of_group(framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, group: Rejected) -> Cause:
    node = group.examples[0]
    info = cache.present(node)
    assert info is not None, "a rejected node exists"
    mask = verdicts.rejects.get(group.plugin)
    if info.slot in verdicts.diagnosis.explicit and (mask is None or not mask[info.slot]):
        others = framework.nominated_before(pod, node)
        why = Why(
            "RoomIsNominated",
            "there is room, but it is kept for pods that are nominated there",
            _kept(others) if others else "",
        )
    else:
        why = _why_not_here(framework, group.plugin, pod, info, group.reason)
    count, total = group.nodes, cache.table.count
    where = (
        f"on {count:,} of {counted(total, 'node')}" if count < total else "on all nodes" if total > 1 else f"on {node}"
    )
    text = f"{where}, {why.text or group.reason}"
    if why.detail:
        named = "" if total == 1 else f"; {'there' if count == 1 else 'nearest'} is {node}"
        text += f"{named}: {why.detail}"
    reason = why.reason or _reason(framework.plugins.get(group.plugin)) or group.plugin
    return Cause(reason=reason, text=text, plugin=group.plugin, nodes=group.nodes)


def _why_not_here(framework: Framework, name: str, pod: PodInfo, node: NodeInfo, message: str) -> Why:
    plugin: Any = framework.plugins.get(name)
    if not isinstance(plugin, Plugin):
        return Why()
    return said(plugin, "why_not_here", lambda: Why(*plugin.why_not_here(pod, node, message)), Why())


def _reason(plugin: Any) -> str:
    return str(getattr(plugin, "reason", ""))
