"""A full cluster in memory, in which a pod group named `gang`, of priority 100, needs the room of other pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.gang_preemption import GroupPreemptor
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import in_group, make_node, make_pod, make_pod_group

NOW = 1_700_000_000.0
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def room(name: str, cpu: int, zone: str = "z") -> dict[str, Any]:
    """A node with room for `cpu` pods of one CPU."""
    return make_node(name, labels={HOST: name, ZONE: zone}, allocatable={"cpu": str(cpu)})


def one(name: str, node: str, priority: int = 0, group: str = "", start: str = "", **options: Any) -> dict[str, Any]:
    """A running pod of one CPU."""
    spec = {**(in_group(group) if group else {}), **options.pop("spec", {})}
    status = {"phase": "Running", **({"startTime": start} if start else {}), **options.pop("status", {})}
    return make_pod(name, node=node, priority=priority, requests={"cpu": "1"}, spec=spec, status=status, **options)


def group_of(
    name: str, priority: int | None = None, *, whole: bool = False, min_count: int | None = 1
) -> dict[str, Any]:
    """Another group. `whole`: its pods are disrupted together."""
    spec: dict[str, Any] = {} if priority is None else {"priority": priority}
    return make_pod_group(name, min_count, disruptionMode={"all" if whole else "single": {}}, **spec)


def budget(name: str, allowed: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": dict(labels)}},
        "status": {"disruptionsAllowed": allowed},
    }


class FullCluster:
    """See the module. `members` pods wait, of one CPU each unless `member` overrides it; `plugins` and `config` as in a
    profile.
    """

    def __init__(
        self,
        nodes: Iterable[Mapping[str, Any]],
        placed: Iterable[Mapping[str, Any]] = (),
        *,
        members: int = 1,
        min_count: int | None = None,
        groups: Sequence[Mapping[str, Any]] = (),
        budgets: Sequence[Mapping[str, Any]] = (),
        group: Mapping[str, Any] | None = None,
        member: Mapping[str, Any] | None = None,
        plugins: Mapping[str, Any] | None = None,
        config: Sequence[Mapping[str, Any]] = (),
        classes: Mapping[str, Any] = PLUGINS,
    ) -> None:
        self.world = World(clock=lambda: NOW)
        self.world.fill({"nodes": list(nodes), "pods": list(placed), "podDisruptionBudgets": list(budgets)})
        self.cache = self.world.cache
        own = make_pod_group("gang", min_count or members, **{"priority": 100, **(group or {})})
        for raw in (own, *groups):
            self.cache.set_object(KIND, raw)
        profile = convert_profile(
            {"plugins": plugins or {}, "pluginConfig": list(config)}, "", classes, self.world.features
        )
        self.framework = Framework(profile, classes, self.world)
        options = {"requests": {"cpu": "1"}, "priority": 100, **(member or {})}
        spec = {**in_group(), **options.pop("spec", {})}
        self.members = [parse_pod(make_pod(f"m{i}", spec=spec, **options), keep_raw=True) for i in range(members)]
        for pod in self.members:
            self.cache.groups.add_waiting(pod)

    @property
    def planner(self) -> GangPlanner:
        group = self.cache.groups.get(group_key(WORKLOAD_API, "default", "gang"))
        assert group is not None
        return GangPlanner(self.framework, self.cache, group, lambda _n: 0)

    def preempt(self) -> Any:
        planner = self.planner
        return GroupPreemptor(self.framework, self.cache, planner.group, planner.plan, NOW).preempt(self.members)

    def victims(self) -> list[str]:
        """The names of the victims, in order of falling priority."""
        return [victim.name for victim in self.preempt().victims]
