"""Problem: what the claims of a pod ask for, prepared for the search. It does not depend on the node, and not on the
claims' names.

Problems are kept and shared: the claims of one template have one spec, so the pods of a workload have one problem.
Problems that differ only in names, such as those of extended resources whose classes have the same selectors, share
their verdicts (`Signature`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from podwright.core.devices.capacity import CapacityError, Consumption, consumption_of
from podwright.core.devices.selectors import Matcher, Selectors
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import ALL, Ask, ClaimSpec
from podwright.core.objects.devices.classes import DeviceClass
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.objects.taints import Taint
from podwright.core.state.devices import Devices

MAX_CONSUMPTIONS: Final = 8192

Consumptions = RecentCache[tuple["PreparedAsk", DeviceShape], tuple[Consumption | CapacityError | None]]


class PreparedAsk:
    """An ask with its class and the matcher of its selectors. `matcher` is None if it cannot be matched, see
    `search`.
    """

    __slots__ = ("_consumptions", "all_devices", "ask", "device_class", "matcher", "plain")

    def __init__(
        self, ask: Ask, device_class: DeviceClass | None, matcher: Matcher | None, consumptions: Consumptions
    ) -> None:
        self.ask = ask
        self.device_class = device_class
        self.matcher = matcher
        self.all_devices = ask.mode == ALL
        self.plain = not ask.capacity
        """True if it asks for no part of a capacity."""
        self._consumptions = consumptions

    def consumption(self, shape: DeviceShape) -> Consumption | None:
        """See `consumption_of`. Raises CapacityError."""
        key = self, shape
        known = self._consumptions.get(key)
        if known is None:
            try:
                known = (consumption_of(self.ask.capacity, shape),)
            except CapacityError as error:
                known = (error,)
            self._consumptions.put(key, known)
        (found,) = known
        if isinstance(found, CapacityError):
            raise found
        return found

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        return all(any(own.tolerates(taint) for own in self.ask.tolerations) for taint in taints)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRequest:
    """A request with its asks: one, or alternatives."""

    asks: tuple[PreparedAsk, ...]
    alternatives: bool


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClaim:
    """One claim of a problem."""

    spec: ClaimSpec
    requests: tuple[PreparedRequest, ...]


class Signature:
    """Equal for problems that ask for the same under other names of requests and classes: then they have the same
    verdicts on every node.
    """

    __slots__ = ("_hash", "_parts")

    def __init__(self, claims: Sequence[PreparedClaim]) -> None:
        self._parts = tuple(map(_parts_of_claim, claims))
        self._hash = hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Signature) and self._parts == other._parts)


def _parts_of_claim(claim: PreparedClaim) -> Hashable:
    asks = [ask for request in claim.requests for ask in request.asks]
    return (
        claim.spec.problem,
        tuple((request.alternatives, tuple(map(_parts_of_ask, request.asks))) for request in claim.requests),
        tuple(
            (each.attribute, each.distinct, tuple(each.covers(ask.ask) for ask in asks))
            for each in claim.spec.constraints
        ),
    )


def _parts_of_ask(prepared: PreparedAsk) -> Hashable:
    ask, device_class = prepared.ask, prepared.device_class
    return (
        None if device_class is None else device_class.selectors,
        ask.selectors,
        (ask.mode, ask.count, ask.admin, ask.derived_attributes),
        ask.tolerations,
        tuple(ask.capacity.items()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class AllocationProblem:
    """See the module."""

    claims: tuple[PreparedClaim, ...]
    signature: Signature


class AllocationProblems:
    """Prepares problems."""

    def __init__(self, devices: Devices, selectors: Selectors) -> None:
        self._devices = devices
        self._selectors = selectors
        self._consumptions: Consumptions = RecentCache(MAX_CONSUMPTIONS)

    def classes_of(self, specs: Sequence[ClaimSpec]) -> tuple[DeviceClass | None, ...]:
        """The class of each ask of the claims, in order."""
        asks = (ask for spec in specs for request in spec.requests for ask in request.asks)
        return tuple(self._devices.device_class(ask.device_class) for ask in asks)

    def prepare(self, specs: Sequence[ClaimSpec], classes: Sequence[DeviceClass | None]) -> AllocationProblem:
        """`classes`: see `classes_of`."""
        left = iter(classes)
        claims = tuple(
            PreparedClaim(
                spec,
                tuple(
                    PreparedRequest(
                        tuple(self._prepare(ask, next(left)) for ask in request.asks), request.has_alternatives
                    )
                    for request in spec.requests
                ),
            )
            for spec in specs
        )
        return AllocationProblem(claims, Signature(claims))

    def _prepare(self, ask: Ask, device_class: DeviceClass | None) -> PreparedAsk:
        matcher = None if device_class is None else self.matcher(device_class, ask.selectors)
        return PreparedAsk(ask, device_class, matcher, self._consumptions)

    def matcher(self, device_class: DeviceClass, selectors: Sequence[str | None] = ()) -> Matcher | None:
        """Returns the matcher of a class's devices with these further selectors; None if one is of an unknown kind."""
        if None in (*device_class.selectors, *selectors):
            return None
        of_class = tuple(text for text in device_class.selectors if text is not None)
        return self._selectors.matcher(of_class, tuple(text for text in selectors if text is not None))
