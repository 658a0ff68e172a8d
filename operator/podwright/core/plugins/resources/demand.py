"""The amounts that a pod adds to the resources that a plugin scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from podwright.core.objects.resources import is_counted_resource, is_scalar_resource
from podwright.core.plugins.resources.rows import Floats


@dataclass(frozen=True, slots=True)
class Demand:
    """The scored resources of a pod: their indices in the plugin's list, their names, and the amounts that the pod
    adds.
    """

    places: tuple[int, ...]
    resources: tuple[str, ...]
    amounts: tuple[int, ...]
    _column: tuple[float, Floats] | None = field(default=None, init=False, repr=False, compare=False)

    def column(self, factor: float) -> Floats:
        """float64[resources, 1]: the amounts times a factor."""
        known = self._column
        if known is None or known[0] != factor:
            known = factor, np.array([[amount * factor] for amount in self.amounts])
            object.__setattr__(self, "_column", known)
        return known[1]

    def of_nothing(self) -> Demand:
        """The same resources with amounts of 0."""
        return Demand(self.places, self.resources, (0,) * len(self.amounts))


class ScoredResources:
    """The resources in a plugin's args. Resources that the scheduler does not count are never scored."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._counted = [(place, name) for place, name in enumerate(names) if is_counted_resource(name)]
        self._scalar = frozenset(name for name in names if is_scalar_resource(name))
        self._places = tuple(place for place, _ in self._counted)
        self._resources = tuple(name for _, name in self._counted)

    def demand(self, amounts: Mapping[str, int]) -> Demand:
        """The demand of a pod with these requests. A scalar resource is only scored if the pod requests it."""
        wanted = tuple([amounts.get(name, 0) for name in self._resources])
        if not self._scalar or 0 not in wanted:
            return Demand(self._places, self._resources, wanted)
        kept = [(place, name, amounts.get(name, 0)) for place, name in self._counted]
        kept = [item for item in kept if item[2] or item[1] not in self._scalar]
        return Demand(tuple(i[0] for i in kept), tuple(i[1] for i in kept), tuple(i[2] for i in kept))
