"""AffectedMembers: the members that may fail their filters once a removed pod is back on its node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

from podwright.core.cycle import Placement
from podwright.core.framework import contract
from podwright.core.framework.contract import looks_beyond_node
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import DomainPlugin, Scope
from podwright.core.framework.profile import Point
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class _Reach:
    """The members that a pod affects on other nodes: wherever they are, and by topology key and label value."""

    everywhere: AbstractSet[int]
    near: Mapping[str, Mapping[str, AbstractSet[int]]]
    """Nodes without the label have the value ""."""


class _Noticing:
    """A plugin of scope DOMAIN, which may notice pods on other nodes."""

    def __init__(self, plugin: DomainPlugin) -> None:
        def guarded(method: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
            return contract.guarded(plugin, Point.FILTER, method)

        self.influence = guarded(plugin.influence)
        self.key = guarded(plugin.influence_key)
        self.looks = guarded(plugin.looks_beyond_node)
        self.own_keys = guarded(plugin.own_keys)
        self.reaches: Callable[[PodInfo], bool] = (
            _never if plugin.reaches_beyond_node is None else guarded(plugin.reaches_beyond_node)
        )


def _never(_pod: PodInfo) -> bool:
    return False


class AffectedMembers:
    """Members as positions in the placements. May name too many, but not too few.

    A pod affects the members on its own node, and those in the domains that PreFilter and Filter plugins of scope
    DOMAIN name. With such a plugin of scope CLUSTER it affects all members.
    """

    def __init__(self, framework: Framework, cache: Cache, placements: Sequence[Placement], *, thorough: bool) -> None:
        """`thorough`: every pod affects all members."""
        members = [placement.pod for placement in placements]
        self._cache = cache
        self._all = frozenset(range(len(placements)))
        rejecting = tuple(dict.fromkeys(framework.at(Point.PRE_FILTER, Point.FILTER)))
        self._always_all = thorough or any(plugin.scope is Scope.CLUSTER for plugin in rejecting)
        domain_plugins = [plugin for plugin in rejecting if isinstance(plugin, DomainPlugin)]
        self.domain_filters = frozenset(plugin.name for plugin in domain_plugins)
        """The names of plugins whose verdicts change only for members in `beyond_node`."""
        self._noticing = [
            _Noticing(plugin)
            for plugin in domain_plugins
            if plugin.reaches_beyond_node is not None or any(looks_beyond_node(plugin, pod) for pod in members)
        ]
        self._members_share_reserve = any(
            looks_beyond_node(plugin, pod) for plugin in framework.reserve_plugins for pod in members
        )
        self.must_reserve = self._always_all or self._members_share_reserve
        """True if Reserve for one member may change the verdicts on the next."""
        self._placements = placements
        self._on_node: dict[str, set[int]] = {}
        templates: dict[tuple[Any, ...], tuple[PodInfo, dict[str, set[int]]]] = {}
        for index, placement in enumerate(placements):
            pod = placement.pod
            _, by_node = templates.setdefault(self._key(pod), (pod, {}))
            for nodes in (by_node, self._on_node):
                nodes.setdefault(placement.node_name, set()).add(index)
        self._templates = tuple(templates.values())
        """Members with equal influence keys: one of them, and the positions of all by node."""
        self._looking = [
            [i for i, (pod, _) in enumerate(self._templates) if noticing.looks(pod)] for noticing in self._noticing
        ]
        """By plugin: the templates that look beyond their node."""
        self._reaches: dict[tuple[Any, ...], _Reach] = {}
        """By influence key."""
        self._equal_reaches: dict[Hashable, _Reach] = {}
        """One for all influence keys that affect the same templates."""
        self._beneath: dict[int, AbstractSet[int] | None] = {}
        """See `_find_beneath`. Filled as needed."""

    def on_nodes(self, names: Iterable[str]) -> set[int]:
        """The members planned on these nodes."""
        return set().union(*(self._on_node.get(name, ()) for name in names))

    def beyond_node(self, pods: Iterable[tuple[PodInfo, str]], *, shares_node: bool) -> AbstractSet[int]:
        """Members that these pods, each with its node's name, affect through more than their own node.

        `shares_node`: one of the pods is on the node of a member.
        """
        if self._always_all or (shares_node and self._members_share_reserve):
            return self._all
        found: set[int] = set()
        for pod, node_name in pods:
            for members in self._reached(pod, node_name):
                found |= members
        return found

    def any_by(self, pod: PodInfo, node_name: str) -> bool:
        """True if the pod on this node may affect any member, now or after other pods came back."""
        return self._always_all or node_name in self._on_node or any(self._reached(pod, node_name))

    def beneath(self, members: AbstractSet[int]) -> Sequence[int]:
        """Returns these members and those before them that may change verdicts on one of them, in order."""
        last = max(members)
        everyone = range(last + 1)
        if self.must_reserve or len(members) > last:
            return everyone
        found = set(members)
        for index in members:
            self._cache.deadline.point()
            if index not in self._beneath:
                self._beneath[index] = self._find_beneath(index)
            beneath = self._beneath[index]
            if beneath is None:
                return everyone
            found |= beneath
        return sorted(found)

    def _find_beneath(self, index: int) -> AbstractSet[int] | None:
        """The members before this one that may change its verdict. None: any of them may."""
        if self._own_keys[index] is None:
            return None
        placement = self._placements[index]
        near = self._on_node[placement.node_name]
        candidates = set(self._anywhere)
        for key, by_value in self._by_domain.items():
            candidates |= by_value[self._label(placement.node_name, key)]
        return {i for i in candidates | near if i < index and (i in near or self._affects(i, placement))}

    def _affects(self, index: int, placement: Placement) -> bool:
        other = self._placements[index]
        for noticing in self._noticing:
            keys = noticing.influence(placement.pod, other.pod)
            if keys is None or any(
                self._label(placement.node_name, key) == self._label(other.node_name, key) for key in keys
            ):
                return True
        return False

    @cached_property
    def _own_keys(self) -> Sequence[frozenset[str] | None]:
        """By member: the union of the plugins' `own_keys`."""
        found: list[frozenset[str] | None] = []
        for placement in self._placements:
            each = [noticing.own_keys(placement.pod) for noticing in self._noticing]
            known = [keys for keys in each if keys is not None]
            found.append(frozenset().union(*known) if len(known) == len(each) else None)
        return found

    @cached_property
    def _anywhere(self) -> AbstractSet[int]:
        """The members without own keys, which may affect any other."""
        return {index for index, keys in enumerate(self._own_keys) if keys is None}

    @cached_property
    def _by_domain(self) -> Mapping[str, Mapping[str, AbstractSet[int]]]:
        """All members by topology key and label value, for the own keys of all members."""
        keys = frozenset[str]().union(*(keys for keys in self._own_keys if keys is not None))
        found: dict[str, dict[str, set[int]]] = {key: {} for key in keys}
        for key, by_value in found.items():
            for node_name, members in self._on_node.items():
                by_value.setdefault(self._label(node_name, key), set()).update(members)
        return found

    def _reached(self, pod: PodInfo, node_name: str) -> Iterator[AbstractSet[int]]:
        """The members that the pod on this node affects through more than their own node, in sets that may overlap."""
        reach = self._reach_of(pod)
        if reach.everywhere:
            yield reach.everywhere
        for key, by_value in reach.near.items():
            if members := by_value.get(self._label(node_name, key)):
                yield members

    def _reach_of(self, other: PodInfo) -> _Reach:
        key = self._key(other)
        known = self._reaches.get(key)
        if known is None:
            affected = self._affected_templates(other)
            same = frozenset(affected.items())
            known = self._equal_reaches.get(same)
            if known is None:
                known = self._equal_reaches[same] = self._new_reach(affected)
            self._reaches[key] = known
        return known

    def _affected_templates(self, other: PodInfo) -> dict[int, frozenset[str] | None]:
        """The templates that the pod affects, each with topology keys; None: wherever the members are."""
        found: dict[int, frozenset[str] | None] = {}
        everyone = range(len(self._templates))
        for noticing, looking in zip(self._noticing, self._looking, strict=True):
            influence = noticing.influence
            for i in everyone if noticing.reaches(other) else looking:
                keys = influence(self._templates[i][0], other)
                if keys is None:
                    found[i] = None
                elif keys:
                    before = found.get(i, frozenset())
                    found[i] = None if before is None else before | keys
        return found

    def _new_reach(self, affected: Mapping[int, frozenset[str] | None]) -> _Reach:
        everywhere: set[int] = set()
        near: dict[str, dict[str, set[int]]] = {}
        for i, keys in affected.items():
            by_node = self._templates[i][1]
            if keys is None:
                everywhere.update(*by_node.values())
                continue
            for key in keys:
                by_value = near.setdefault(key, {})
                for node_name, members in by_node.items():
                    by_value.setdefault(self._label(node_name, key), set()).update(members)
        return _Reach(everywhere, near)

    def _key(self, pod: PodInfo) -> tuple[Any, ...]:
        return tuple([noticing.key(pod) for noticing in self._noticing])

    def _label(self, node_name: str, key: str) -> str:
        info = self._cache.present(node_name)
        return "" if info is None else info.present.labels.get(key, "")
