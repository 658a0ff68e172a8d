"""Which spread constraints a node would break, and changes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from podwright.core.framework.explaining import PodChange, Raw, Why, editable, some
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

_SKEWS: Final = 3


def why_not_here(pod: PodInfo, node: NodeInfo) -> Why:
    labels = node.present.labels
    found = []
    for each in pod.spread.hard:
        if each.topology_key not in labels:
            found.append(f"the node has no label {each.topology_key}")
        else:
            domains = f" and at least {each.min_domains} domains" if each.min_domains > 1 else ""
            found.append(
                f"maxSkew {each.max_skew} over {each.topology_key}{domains}, the node is in {labels[each.topology_key]}"
            )
    return Why(detail=some(found))


def changes_of_pod(pod: PodInfo) -> Iterator[PodChange]:
    constraints = ((pod.raw or {}).get("spec") or {}).get("topologySpreadConstraints") or ()
    hard = [i for i, each in enumerate(constraints) if each.get("whenUnsatisfiable") == "DoNotSchedule"]
    for index in hard:
        if (constraints[index].get("minDomains") or 1) > 1:
            yield _with(pod, {index: _any_domains})
    some = [[index] for index in hard] + ([hard] if len(hard) > 1 else [])
    for more in range(1, (_SKEWS if len(hard) == 1 else 1) + 1):
        for indices in some:
            yield _with(pod, dict.fromkeys(indices, partial(_skewed, more=more)))
    for indices in some:
        yield _with(pod, dict.fromkeys(indices, _soft))


def _with(pod: PodInfo, changes: Mapping[int, Callable[[Raw], str]]) -> PodChange:
    made = editable(pod)
    constraints = made["spec"]["topologySpreadConstraints"]
    return PodChange(" and ".join(change(constraints[index]) for index, change in changes.items()), made)


def _any_domains(constraint: Raw) -> str:
    fewest = constraint.pop("minDomains")
    return f"do not ask for {fewest} domains of {constraint.get('topologyKey')} (minDomains)"


def _skewed(constraint: Raw, more: int) -> str:
    before = constraint.get("maxSkew", 1)
    constraint["maxSkew"] = before + more
    return f"allow maxSkew {before + more} instead of {before} over {constraint.get('topologyKey')}"


def _soft(constraint: Raw) -> str:
    constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    constraint.pop("minDomains", None)  # only for DoNotSchedule
    return f"prefer to spread over {constraint.get('topologyKey')} instead of requiring it (ScheduleAnyway)"
