"""A gang of members of different kinds, in a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podwright.core.objects.pod import parse_pod
from support.gangs.kit import FullCluster
from support.objects.builders import in_group, make_pod


def near(kind: str, key: str, *, anti: bool = False) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"kind": kind}}}
    name = "podAntiAffinity" if anti else "podAffinity"
    return {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(kind: str, key: str) -> dict[str, Any]:
    selector = {"matchLabels": {"kind": kind}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


class MixedCluster(FullCluster):
    """Waiting members of the group `gang`, each given as its kind, its CPUs and its affinity or spread. They are named
    after their kind.
    """

    def __init__(
        self,
        nodes: Iterable[Mapping[str, Any]],
        members: Sequence[tuple[str, int, Mapping[str, Any]]],
        *,
        min_count: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nodes, members=0, min_count=min_count or len(members), **options)
        counts: dict[str, int] = {}
        for kind, cpu, spec in members:
            number = counts[kind] = counts.get(kind, -1) + 1
            raw = make_pod(
                f"{kind}{number}",
                requests={"cpu": str(cpu)},
                priority=100,
                labels={"kind": kind},
                spec={**in_group(), **spec},
            )
            pod = parse_pod(raw, keep_raw=True)
            self.members.append(pod)
            self.cache.groups.add_waiting(pod)
