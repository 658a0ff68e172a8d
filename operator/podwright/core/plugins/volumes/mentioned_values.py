"""The label values of nodes that the requirements of volumes, classes and capacities can distinguish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from podwright.core.objects.selectors import Labels, Requirement
from podwright.core.objects.volumes import VolumeAffinity

Signature = tuple[str | bool | None, ...]
"""The relevant part of a node's labels, for each label key: the value, None if the node lacks the label, True if no
requirement mentions the value.
"""


class MentionedValues:
    """The label keys of requirements, with the values that they mention. Requirements cannot distinguish other values
    of a label.
    """

    def __init__(self) -> None:
        self._values: dict[str, set[str] | None] = {}
        """None: requirements on this label may distinguish any two values."""
        self._order: tuple[str, ...] = ()
        self._affinities: set[VolumeAffinity] = set()

    def add_affinity(self, affinity: VolumeAffinity | None) -> None:
        if affinity is not None and affinity not in self._affinities:
            self._affinities.add(affinity)
            for term in affinity.terms:
                self.add(term)

    def add(self, requirements: Iterable[Requirement]) -> None:
        for requirement in requirements:
            if requirement.operator in ("Gt", "Lt"):
                self._values[requirement.key] = None
            elif (known := self._values.setdefault(requirement.key, set())) is not None:
                known |= requirement.values
        self._order = ()

    @property
    def keys(self) -> Sequence[str]:
        """In a fixed order."""
        if len(self._order) != len(self._values):
            self._order = tuple(sorted(self._values))
        return self._order

    def of(self, key: str) -> AbstractSet[str] | None:
        """The values of this label that matter; None: all of them."""
        return self._values[key]

    def signature(self, labels: Labels) -> Signature:
        """The signature of these labels, in the order of `keys`."""
        signature: list[str | bool | None] = []
        for key in self.keys:
            value, mentioned = labels.get(key), self._values[key]
            signature.append(value if value is None or mentioned is None or value in mentioned else True)
        return tuple(signature)
