"""The amounts that a pod adds to the resources that a plugin scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import is_counted_resource, is_scalar_resource
from podwright.core.plugins.resources.rows import Column, Floats, Used, used_of


@dataclass(frozen=True, slots=True)
class Demand:
    """The scored resources of a pod: their indices in the plugin's list, their names, functions for what a node's pods
    use, and the amounts that the pod adds.
    """

    places: tuple[int, ...]
    resources: tuple[str, ...]
    used: tuple[Used, ...]
    amounts: tuple[int, ...]
    _column: tuple[float, Column] | None = field(default=None, init=False, repr=False, compare=False)

    def column(self, factor: float, rows: int) -> Floats:
        """float64[resources, rows], or [resources, 1]: the amounts times a factor, in each row."""
        known = self._column
        if known is None or known[0] != factor:
            known = factor, Column([amount * factor for amount in self.amounts])
            object.__setattr__(self, "_column", known)
        return known[1].of(rows)

    def of_nothing(self) -> Demand:
        """The same resources with amounts of 0."""
        return Demand(self.places, self.resources, self.used, (0,) * len(self.amounts))


class ScoredResources:
    """The resources in a plugin's args. Resources that the scheduler does not count are never scored. `defaults`: see
    `used_of`.
    """

    def __init__(self, names: Sequence[str], *, defaults: bool) -> None:
        self.names = tuple(names)
        counted = [(place, name) for place, name in enumerate(names) if is_counted_resource(name)]
        self._scalar = frozenset(name for name in names if is_scalar_resource(name))
        self._places = tuple(place for place, _ in counted)
        self._resources = tuple(name for _, name in counted)
        self._used = tuple(used_of(name, defaults=defaults) for name in self._resources)

    def demand(self, amounts: Mapping[str, int]) -> Demand:
        """The demand of a pod with these requests. A scalar resource is only scored if the pod requests it."""
        wanted = tuple([amounts.get(name, 0) for name in self._resources])
        if not self._scalar or 0 not in wanted:
            return Demand(self._places, self._resources, self._used, wanted)
        all_four = zip(self._places, self._resources, self._used, wanted, strict=True)
        kept = [item for item in all_four if item[3] or item[1] not in self._scalar]
        places, resources, used, amounts_kept = zip(*kept, strict=True) if kept else ((), (), (), ())
        return Demand(places, resources, used, amounts_kept)
