"""AffectedMembers: the members that may fail their filters once a removed pod is back on its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from podwright.core.cycle import Placement
from podwright.core.framework import contract
from podwright.core.framework.framework import Framework, looks_beyond_node
from podwright.core.framework.interface import DomainPlugin, Scope
from podwright.core.framework.profile import Point
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache


class AffectedMembers:
    """Members as positions in the placements. May name too many, but not too few.

    A pod affects the members on its own node, and those in the domains that PreFilter and Filter plugins of scope DOMAIN
    name. With such a plugin of scope CLUSTER it affects all members.
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
        noticing = [
            plugin
            for plugin in domain_plugins
            if plugin.reaches_beyond_node is not None or any(looks_beyond_node(plugin, pod) for pod in members)
        ]
        self._influences = [contract.guarded(plugin, Point.FILTER, plugin.influence) for plugin in noticing]
        self._influence_keys = [contract.guarded(plugin, Point.FILTER, plugin.influence_key) for plugin in noticing]
        self._members_share_reserve = any(
            looks_beyond_node(plugin, pod) for plugin in framework.reserve_plugins for pod in members
        )
        self.must_reserve = self._always_all or self._members_share_reserve
        """Whether Reserve for one member may change the verdicts on the next."""
        self._on_node: dict[str, set[int]] = {}
        templates: dict[tuple[Any, ...], tuple[PodInfo, dict[str, set[int]]]] = {}
        for index, placement in enumerate(placements):
            pod = placement.pod
            _, by_node = templates.setdefault(self._key(pod), (pod, {}))
            for nodes in (by_node, self._on_node):
                nodes.setdefault(placement.node_name, set()).add(index)
        self._templates = tuple(templates.values())
        """Members with equal influence keys: one of them, and the positions of all by node."""
        self._in_domain: dict[tuple[int, str], dict[str, set[int]]] = {}
        self._influenced: dict[tuple[Any, ...], tuple[tuple[int, frozenset[str] | None], ...]] = {}

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
            for template, keys in self._influenced_by(pod):
                by_node = self._templates[template][1]
                if keys is None:
                    found.update(*by_node.values())
                else:
                    found.update(*(self._same_domain(template, by_node, key, node_name) for key in keys))
        return found

    def any_by(self, pod: PodInfo, node_name: str) -> bool:
        """Whether the pod on this node may affect any member, now or after other pods came back."""
        return self._always_all or node_name in self._on_node or bool(self._influenced_by(pod))

    def _influenced_by(self, other: PodInfo) -> tuple[tuple[int, frozenset[str] | None], ...]:
        """The templates that the pod affects on other nodes, each with topology keys; None: wherever the members are."""
        key = self._key(other)
        known = self._influenced.get(key)
        if known is None:
            found = ((i, self._topology_keys(member, other)) for i, (member, _) in enumerate(self._templates))
            known = self._influenced[key] = tuple((i, keys) for i, keys in found if keys is None or keys)
        return known

    def _topology_keys(self, member: PodInfo, other: PodInfo) -> frozenset[str] | None:
        keys: frozenset[str] = frozenset()
        for influence in self._influences:
            found = influence(member, other)
            if found is None:
                return None
            keys |= found
        return keys

    def _key(self, pod: PodInfo) -> tuple[Any, ...]:
        return tuple([key(pod) for key in self._influence_keys])

    def _same_domain(self, template: int, by_node: Mapping[str, set[int]], key: str, node_name: str) -> Iterable[int]:
        """The template's members on nodes with the same label value as this node. Nodes without the label are one domain."""
        by_value = self._in_domain.get((template, key))
        if by_value is None:
            by_value = self._in_domain[template, key] = {}
            for node, members in by_node.items():
                by_value.setdefault(self._label(node, key), set()).update(members)
        return by_value.get(self._label(node_name, key), ())

    def _label(self, node_name: str, key: str) -> str:
        info = self._cache.present(node_name)
        return "" if info is None else info.present.labels.get(key, "")
