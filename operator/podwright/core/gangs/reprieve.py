"""Which of the pods that were taken off the cache may come back beside a group's planned members.

A unit is spared if every member still passes all filters on its planned node, the members before it being there.
Invariant: with what came back so far they do, so that only those need be asked again whom the unit can turn away;
`_Reach` says who that is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Self

from podwright.core.cycle import Placement
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.objects.affinity import NO_SPREAD
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import claims_of
from podwright.core.plugins import PLUGINS
from podwright.core.preemption.units import Unit
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

_BY_NODE: Final = frozenset(
    {
        "DynamicResources",
        "NodeAffinity",
        "NodeDeclaredFeatures",
        "NodeName",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "TaintToleration",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""Filters to which pods on other nodes are nothing, but for pods that share a claim."""
_BY_DOMAIN: Final = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Filters to which pods on other nodes are nothing unless a selector picks one, and they are in the same domain."""


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
            state.skip_filter |= _BY_DOMAIN
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

    Those on its own node. With claims that both have, or a filter that is not one of ours and adjusts its state, all.
    Members in the same domain, where their anti-affinity or spread constraints pick the pod, or its anti-affinity them:
    one pod more makes no domain's anti-affinity or skew worse but its own's. Members whose required affinity picks it,
    wherever: they may have passed as the first of their kind. Namespaces and merged selectors are not looked at.
    Other filters are taken to look at one node, as they are in the dry run for a single pod.
    """

    def __init__(self, framework: Framework, cache: Cache, placements: Sequence[Placement], *, thorough: bool) -> None:
        plugins = framework.filter_plugins
        members = [placement.pod for placement in placements]
        self._cache = cache
        self._all = frozenset(range(len(placements)))
        self._everything = thorough or any(map(_is_unknown_and_adjusts, plugins))
        self._volumes = any(pod.volumes for pod in members)
        self.reserves = thorough or self._volumes or not all(map(_is_known, plugins))
        """What Reserve does for one member matters to the next."""
        self._default_keys = frozenset().union(*map(_hard_default_keys, plugins))
        self._claims = {name for pod in members for name, _ in claims_of(pod)}
        self._on: dict[str, set[int]] = {}
        kinds: dict[tuple[Any, ...], tuple[PodInfo, dict[str, set[int]]]] = {}
        for index, placement in enumerate(placements):
            pod = placement.pod
            _, where = kinds.setdefault((pod.namespace, pod.labels, pod.pod_affinity, pod.spread), (pod, {}))
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
        return (
            self._everything
            or node_name in self._on
            or bool(self._picks(pod))
            or bool(self._claims and any(name in self._claims for name, _ in claims_of(pod)))
        )

    def of(self, homes: Iterable[tuple[PodInfo, str]], *, touched: bool) -> AbstractSet[int]:
        """Members whose verdict may depend on more than their node, now that these pods are back on these nodes."""
        if self._everything or (touched and self._volumes):
            return self._all
        found: set[int] = set()
        for pod, node_name in homes:
            if self._claims and any(name in self._claims for name, _ in claims_of(pod)):
                return self._all
            for kind, keys in self._picks(pod):
                where = self._kinds[kind][1]
                if keys is None:
                    found.update(*where.values())
                else:
                    found.update(*(self._domain(kind, where, key, node_name) for key in keys))
        return found

    def _picks(self, other: PodInfo) -> tuple[tuple[int, frozenset[str] | None], ...]:
        """The kinds of members that a pod matters to beyond its node, and in which domains; None: in all of them."""
        key = (other.namespace, other.labels, other.pod_affinity)
        known = self._picked.get(key)
        if known is None:
            found = ((i, self._keys(member, other)) for i, (member, _) in enumerate(self._kinds))
            known = self._picked[key] = tuple((i, keys) for i, keys in found if keys is None or keys)
        return known

    def _keys(self, member: PodInfo, other: PodInfo) -> frozenset[str] | None:
        own, theirs = member.pod_affinity, other.pod_affinity
        if any(term.selector.matches(other.labels) for term in own.required):
            return None
        keys = {term.topology_key for term in own.anti_required if term.selector.matches(other.labels)}
        keys |= {term.topology_key for term in theirs.anti_required if term.selector.matches(member.labels)}
        if member.namespace == other.namespace:
            keys |= {c.topology_key for c in member.spread.hard if c.selector.matches(other.labels)}
            if member.spread is NO_SPREAD:
                keys |= self._default_keys
        return frozenset(keys)

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


def _is_known(plugin: Any) -> bool:
    return plugin.name in _BY_NODE | _BY_DOMAIN and PLUGINS.get(plugin.name) is type(plugin)


def _is_unknown_and_adjusts(plugin: Any) -> bool:
    return not _is_known(plugin) and bool(getattr(plugin, "adjusts", False))


def _hard_default_keys(plugin: Any) -> frozenset[str]:
    if plugin.name != "PodTopologySpread" or not _is_known(plugin):
        return frozenset()
    return frozenset(c.topology_key for c in plugin.args.constraints if c.when_unsatisfiable == "DoNotSchedule")
