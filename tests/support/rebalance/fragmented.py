"""A small cluster in which an engine moves pods, on fakes."""

from __future__ import annotations

import dataclasses
from typing import Any

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.state.nominator import reservation_of
from podwright.engine.rebalance.recent import RecentMoves
from support.engine.kit import Rig, on_node, ours, settle, values
from support.objects.builders import in_group, make_pod_group
from support.rebalance.kit import rules


def owner(name: str, kind: str = "ReplicaSet") -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class Fragmented:
    """n0 has room for two more pods, n1 and n2 have one pod each. Each pod has 1 of 4 CPUs."""

    def __init__(self, rig: Rig | None = None, **spec: Any) -> None:
        self.rig = rig or Rig()
        self.engine = self.rig.engine
        self.engine.cache.groups.serve(WORKLOAD_API)
        self.evictor = self.rig.evictor
        self.evictor.waits = True
        for name in ("n0", "n1", "n2"):
            self.rig.node(name, allocatable={"cpu": "4"})
        for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1"), ("d", "n2")):
            self.runs(name, on)
        self.generation = 0
        self.policy(**spec)

    def policy(self, **spec: Any) -> None:
        self.generation += 1
        given = rules(**{"mode": "Enforce", "cooldown": "0s", **spec})
        self.engine.rebalancing.set(dataclasses.replace(given, generation=self.generation), RecentMoves())

    def made(self, name: str, of: str = "web", cpu: str = "1", **more: Any) -> dict[str, Any]:
        given = {"labels": {"app": of}, "requests": {"cpu": cpu}, "metadata": {"ownerReferences": [owner(of)]}}
        return ours(name, **{**given, **more})

    def runs(self, name: str, on: str, **more: Any) -> None:
        raw = self.made(name, **more)
        self.engine.assigned.put(on_node(raw, on))

    def comes(self, name: str, **more: Any) -> dict[str, Any]:
        """Its controller has created a pod."""
        raw = self.made(name, **more)
        self.engine.pending.put(raw)
        return raw

    def gang(self, name: str, members: int, cpu: str, parent: str = "", **more: Any) -> list[dict[str, Any]]:
        """A gang that waits. `parent`: the composite group of which it is a part."""
        spec = {"parentCompositePodGroupName": parent} if parent else {}
        self.engine.objects(KIND).put(make_pod_group(name, members, **spec))
        pods = [f"{name}-{number}" for number in range(members)]
        return [self.rig.pod(each, requests={"cpu": cpu}, spec=in_group(name), **more) for each in pods]

    def gone(self, name: str) -> None:
        self.engine.assigned.drop(f"default/{name}", None)

    async def later(self, seconds: float = 0.0) -> None:
        self.rig.now += seconds
        self.engine.reservations.expire()
        self.engine.rebalancing.begin()
        await settle()
        self.engine.wake()
        await settle()

    async def evicted(self, name: str, deleted: bool = True) -> None:
        """The eviction of this pod has an answer."""
        self.evictor.answers[name](deleted)
        await self.later()

    def bound(self, raw: dict[str, Any], **more: Any) -> None:
        """The watch shows a pod that was placed."""
        self.rig.confirm({**raw, **more}, self.rig.placed_on(raw["metadata"]["name"]))

    async def moves(self, name: str, again: str, **more: Any) -> None:
        """The pod is evicted, and its controller creates another, which is bound."""
        raw = self.comes(again, **more)
        await self.evicted(name)
        self.gone(name)
        await self.later()
        self.bound(raw)
        await self.later()

    @property
    def asked(self) -> list[str]:
        return [name for name, _, _ in self.evictor.evicted]

    @property
    def held(self) -> list[str]:
        nominator = self.engine.cache.nominator
        slots = [pod for name in nominator.nodes() for pod in nominator.on(name) if reservation_of(pod)]
        return sorted(slot.nominated_node_name for slot in slots)

    @property
    def progress(self) -> Any:
        return self.engine.rebalancing.known["tidy"].progress

    @property
    def results(self) -> dict[str, float]:
        return {labels[0]: count for labels, count in values(self.rig, "podwright_rebalance_moves_total").items()}
