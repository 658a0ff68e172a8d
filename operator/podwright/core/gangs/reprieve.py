"""Which of the pods that were taken off the cache may come back beside a group's planned members.

A unit is spared if every member still passes all filters on its planned node, the members before it being there.
Invariant: with what came back so far they do, so that only those need be asked again whom the unit can turn away;
`_Reach` says who that is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Self

from podwright.core.cycle import Placement
from podwright.core.framework import contract
from podwright.core.framework.framework import Framework, looks_beyond_node
from podwright.core.framework.interface import CycleState, DomainPlugin, Scope
from podwright.core.framework.profile import Point
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.units import Unit
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo


class Aside:
    """Pods taken off the cache in memory, to be put back where they were. `restore` leaves the cache as it was before."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._homes: dict[str, str] = {}
        """Node names by uid, in the order in which pods were taken first."""
        self._assumed: set[str] = set()
        self._out: dict[str, PodInfo] = {}
        self._orders: dict[str, list[str]] = {}

    def take(self, pods: Iterable[PodInfo]) -> None:
        """Takes placed or assumed pods off their nodes, which must exist."""
        cache, homes, out = self._cache, self._homes, self._out
        by_node: dict[str, list[PodInfo]] = {}
        for pod in pods:
            info = cache.placement(pod.uid)
            assert info is not None, f"pod {pod.key} is on no node"
            homes[pod.uid] = info.name
            out[pod.uid] = pod
            if cache.is_assumed(pod.uid):
                self._assumed.add(pod.uid)
            there = by_node.get(info.name)
            if there is None:
                there = by_node[info.name] = []
            there.append(pod)
        for name, there in by_node.items():
            if name not in self._orders:
                self._orders[name] = list(cache.nodes[name].pods)
            cache.remove_pods(name, there)

    def home(self, pod: PodInfo) -> str:
        """The name of the node from which the pod was taken."""
        return self._homes[pod.uid]

    def put_back(self, pods: Iterable[PodInfo]) -> None:
        homes, out = self._homes, self._out
        by_node: dict[str, list[PodInfo]] = {}
        for pod in pods:
            del out[pod.uid]
            home = homes[pod.uid]
            if pod.group:
                # Groups keep their members in the order in which they are told of them.
                self._cache.restore_pods(home, (pod,), self._assumed)
                continue
            there = by_node.get(home)
            if there is None:
                there = by_node[home] = []
            there.append(pod)
        for name, there in by_node.items():
            self._cache.restore_pods(name, there, self._assumed)

    def restore(self) -> None:
        """Puts back whatever is out, in the order in which it was."""
        self.put_back([self._out[uid] for uid in self._homes if uid in self._out])
        for name, order in self._orders.items():
            info = self._cache.nodes[name]
            info.pods = {uid: info.pods[uid] for uid in order}


class Reprieve:
    """See the module. Within the `with` block the members' nominations are off: each counts where it is planned."""

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        placements: Sequence[Placement],
        aside: Aside,
        *,
        thorough: bool = False,
    ) -> None:
        """`thorough`: every member is asked about every unit, whatever it can reach."""
        self._framework = framework
        self._cache = cache
        self._placements = placements
        self._aside = aside
        self._reach = Reach(framework, cache, placements, thorough=thorough)
        self._states: dict[str, CycleState] = {}
        self._nominations: list[tuple[PodInfo, str]] = []

    def __enter__(self) -> Self:
        nominator = self._cache.nominator
        for placement in self._placements:
            if node_name := nominator.node_of(placement.pod.uid):
                held = next(pod for pod in nominator.on(node_name) if pod.uid == placement.pod.uid)
                self._nominations.append((held, node_name))
                nominator.remove(held.uid)
        return self

    def __exit__(self, *_: object) -> None:
        for pod, node_name in self._nominations:
            self._cache.nominator.add(pod, node_name)

    def spares(self, unit: Unit) -> bool:
        """Whether the unit may stay; then it is back on the cache: whom it turns away nowhere it may help elsewhere."""
        homes = [(pod, self._aside.home(pod)) for pod in unit.pods]
        beside = self._reach.on({home for _, home in homes})
        near = self._reach.of(homes, touched=bool(beside))
        self._aside.put_back(unit.pods)
        fits = self._fit_in_turn(near | beside) if near else self._fit_by_node(beside)
        if not fits:
            self._aside.take(unit.pods)
        return fits

    def concerned(self, pods: Iterable[PodInfo]) -> set[str]:
        """The uids of those whose return may matter to anybody; the others may come back unasked."""
        matters, home = self._reach.matters, self._aside.home
        return {pod.uid for pod in pods if matters(pod, home(pod))}

    def holds(self) -> bool:
        """Whether all members pass all filters beside everybody who is back."""
        return self._fit_in_turn(range(len(self._placements)))

    def _fit_by_node(self, members: AbstractSet[int]) -> bool:
        """Whether the members pass the filters that look at their node alone. `members`: all those of some nodes."""
        crowded: dict[str, NodeInfo] = {}
        for index in sorted(members):
            placement = self._placements[index]
            info = crowded.get(placement.node_name)
            if info is None:
                info = crowded[placement.node_name] = self._node(placement).clone()
            state = self._state_by_node(placement.pod)
            if self._framework.filter_node_with_nominated(state, placement.pod, info) is not None:
                return False
            info.add(placement.pod)
        return True

    def _state_by_node(self, pod: PodInfo) -> CycleState:
        """The pod's state for filters that look at one node, which depends on no other pod."""
        state = self._states.get(pod.uid)
        if state is None:
            state = self._states[pod.uid] = CycleState()
            self._framework.pre_filter(state, pod)
            state.skip_filter |= self._reach.domain_filters
        return state

    def _fit_in_turn(self, members: Collection[int]) -> bool:
        """Whether these members pass all filters, each with all those before it assumed and reserved."""
        held: list[tuple[CycleState, Placement]] = []
        try:
            for index in range(max(members) + 1):
                placement, state = self._placements[index], CycleState()
                if index in members and not self._passes(state, placement):
                    return False
                self._cache.assume(placement.pod, placement.node_name)
                held.append((state, placement))
                if self._reach.reserves and self._framework.reserve(state, placement.pod, placement.node_name):
                    return False
            return True
        finally:
            for state, placement in reversed(held):
                if self._reach.reserves:
                    self._framework.unreserve(state, placement.pod, placement.node_name)
                self._cache.forget(placement.pod.uid)

    def _passes(self, state: CycleState, placement: Placement) -> bool:
        info = self._node(placement)
        outcome = self._framework.pre_filter(state, placement.pod)
        if outcome.status is not None or (outcome.node_names is not None and info.name not in outcome.node_names):
            return False
        return self._framework.filter_node_with_nominated(state, placement.pod, info) is None

    def _node(self, placement: Placement) -> NodeInfo:
        info = self._cache.present(placement.node_name)
        assert info is not None, f"node {placement.node_name} was planned with"
        return info


class Reach:
    """Which members a pod that comes back can turn away, as positions in the placements. Errs on the safe side.

    Those on its own node, and those in the domains that filters of scope DOMAIN name; with a filter of scope CLUSTER, all.
    """

    def __init__(self, framework: Framework, cache: Cache, placements: Sequence[Placement], *, thorough: bool) -> None:
        plugins = framework.filter_plugins
        members = [placement.pod for placement in placements]
        self._cache = cache
        self._all = frozenset(range(len(placements)))
        self._everything = thorough or any(plugin.scope is Scope.CLUSTER for plugin in plugins)
        self.domain_filters = frozenset(plugin.name for plugin in plugins if isinstance(plugin, DomainPlugin))
        """The names of filters whose verdicts on members change only where `of` says so."""
        noticing = [
            plugin
            for plugin in plugins
            if isinstance(plugin, DomainPlugin)
            and (plugin.reaches_beyond_node is not None or any(looks_beyond_node(plugin, pod) for pod in members))
        ]
        self._influences = [contract.guarded(plugin, Point.FILTER, plugin.influence) for plugin in noticing]
        self._influence_keys = [contract.guarded(plugin, Point.FILTER, plugin.influence_key) for plugin in noticing]
        self._reserves_matter = any(
            looks_beyond_node(plugin, pod) for plugin in framework.reserve_plugins for pod in members
        )
        self.reserves = self._everything or self._reserves_matter
        """What Reserve does for one member matters to the next."""
        self._on: dict[str, set[int]] = {}
        kinds: dict[tuple[Any, ...], tuple[PodInfo, dict[str, set[int]]]] = {}
        for index, placement in enumerate(placements):
            pod = placement.pod
            _, where = kinds.setdefault(self._key(pod), (pod, {}))
            for nodes in (where, self._on):
                nodes.setdefault(placement.node_name, set()).add(index)
        self._kinds = tuple(kinds.values())
        """Members that no rule tells apart: one of them, and where they are by node."""
        self._in_domain: dict[tuple[int, str], dict[str, set[int]]] = {}
        self._picked: dict[tuple[Any, ...], tuple[tuple[int, frozenset[str] | None], ...]] = {}

    def on(self, nodes: Iterable[str]) -> set[int]:
        """The members planned on these nodes."""
        return set().union(*(self._on.get(node, ()) for node in nodes))

    def matters(self, pod: PodInfo, node_name: str) -> bool:
        """Whether the pod, back on this node, may change any member's verdict, now or after others came back."""
        return self._everything or node_name in self._on or bool(self._picks(pod))

    def of(self, homes: Iterable[tuple[PodInfo, str]], *, touched: bool) -> AbstractSet[int]:
        """Members whose verdict may depend on more than their node, now that these pods are back on these nodes."""
        if self._everything or (touched and self._reserves_matter):
            return self._all
        found: set[int] = set()
        for pod, node_name in homes:
            for kind, keys in self._picks(pod):
                where = self._kinds[kind][1]
                if keys is None:
                    found.update(*where.values())
                else:
                    found.update(*(self._domain(kind, where, key, node_name) for key in keys))
        return found

    def _picks(self, other: PodInfo) -> tuple[tuple[int, frozenset[str] | None], ...]:
        """The kinds of members that a pod matters to beyond its node, and in which domains; None: in all of them."""
        key = self._key(other)
        known = self._picked.get(key)
        if known is None:
            found = ((i, self._keys(member, other)) for i, (member, _) in enumerate(self._kinds))
            known = self._picked[key] = tuple((i, keys) for i, keys in found if keys is None or keys)
        return known

    def _keys(self, member: PodInfo, other: PodInfo) -> frozenset[str] | None:
        keys: frozenset[str] = frozenset()
        for influence in self._influences:
            found = influence(member, other)
            if found is None:
                return None
            keys |= found
        return keys

    def _key(self, pod: PodInfo) -> tuple[Any, ...]:
        return tuple([key(pod) for key in self._influence_keys])

    def _domain(self, kind: int, where: Mapping[str, set[int]], key: str, node_name: str) -> Iterable[int]:
        """The kind's members on nodes that share the node's value of the label; nodes without it share that, too."""
        by_value = self._in_domain.get((kind, key))
        if by_value is None:
            by_value = self._in_domain[kind, key] = {}
            for node, members in where.items():
                by_value.setdefault(self._label(node, key), set()).update(members)
        return by_value.get(self._label(node_name, key), ())

    def _label(self, node_name: str, key: str) -> str:
        info = self._cache.present(node_name)
        return "" if info is None else info.present.labels.get(key, "")
