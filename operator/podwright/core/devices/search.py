"""Search: the first way to give all claims of a problem their devices on one node.

    forward: the next device of an ask ─► the next request ─► the next claim ─► solved
                  │ no device left              ▲
                  └─► backward: the next device, or the next alternative, of what was decided last

The order is kube-scheduler's, and so is the result: claims, requests and alternatives in their order, devices in the
order of the pools unless the policy has another one, and within one request ascending combinations only. After a device
has failed, an equivalent device is not tried: it would fail as well. The search has no recursion. It can stop after any
number of steps and go on later. Source: `allocateOne` in k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from podwright.core.devices.capacity import Consumption
from podwright.core.devices.constraints import ConstraintState
from podwright.core.devices.counters import AvailableCounters
from podwright.core.devices.errors import AllocationError
from podwright.core.devices.meter import SearchMeter
from podwright.core.devices.offer import MAX_RESULTS, Offer, needs_no_check
from podwright.core.devices.problem import PreparedAsk
from podwright.core.devices.selectors import FAILS
from podwright.core.objects.dataclass import dataclass
from podwright.core.state.devices.pools import Pool, PoolDevice

Order = Callable[[PreparedAsk], Sequence[int]]
"""All positions of an offer, in the order in which an ask tries them."""

_FORWARD: Final = 0
_FAILED: Final = 1
_EXCEEDED: Final = 2
"""Failed because the claim would have too many devices. Other devices do not help, but another alternative may."""


_FAILING: Final = "fails"
"""The role of a device on which a selector fails. It is equivalent to no other device."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A device for an ask. `consumption` is None unless the ask gets a share."""

    ask: PreparedAsk
    item: PoolDevice
    consumption: Consumption | None


class _Frame:
    """A decision: which device (`position`) is number `k` of an ask, or which alternative (`alternative`) of a
    request.
    """

    __slots__ = ("all_exceeded", "alternative", "ask", "claim", "counted", "failed", "k", "next", "position", "request")

    def __init__(self, claim: int, request: int, alternative: int, ask: PreparedAsk | None, k: int, start: int) -> None:
        self.claim = claim
        self.request = request
        self.alternative = alternative
        self.ask = ask
        """None: the frame chooses an alternative."""
        self.k = k
        self.next = start
        self.position = -1
        self.counted = False
        """True if the device was charged to its counters."""
        self.failed: set[Hashable] = set()
        """The roles of devices with which everything after this decision fails."""
        self.all_exceeded = True


class DeviceSearch:
    """See the module. `solution`: the picks of each claim, once `solved`."""

    def __init__(
        self, offer: Offer, counters: AvailableCounters, meter: SearchMeter, order: Order | None = None
    ) -> None:
        """`order`: in which order an ask tries the positions of devices, None: ascending. `meter`: of the selectors.

        Raises AllocationError or SearchTimeoutError, and so does `run`.
        """
        self.offer = offer
        self._order: Final = order
        self._orders: dict[PreparedAsk, Sequence[int]] = {}
        self.solved: bool | None = None
        """None until the search has ended."""
        self.can_go_on = True
        """False within a step, and after an exception in one."""
        self._counters = counters
        self._stack: list[_Frame] = []
        self._signal = _FORWARD
        self._at = (0, 0, -1, 0, 0)
        self._exceeded_claim = 0
        self._taken: dict[int, list[int]] = {}
        """The claims that have taken a device which cannot be shared, by its position."""
        self._shares: dict[int, list[Consumption]] = {}
        self._consumed: dict[Pool, dict[tuple[str, str], int]] = {}
        self._constraints = [ConstraintState(claim.spec.constraints) for claim in offer.problem.claims]
        self._picks: list[list[Pick]] = [[] for _ in offer.problem.claims]
        self._prunes = not any(
            claim.spec.constraints and any(ask.all_devices for request in claim.requests for ask in request.asks)
            for claim in offer.problem.claims
        )
        """Not where a constraint on all devices can fail the attempt: which device it names depends on what is tried
        first.
        """
        self._roles: dict[int, tuple[Hashable, ...]] = {}
        self._pool_numbers = {pool: number for number, pool in enumerate(dict.fromkeys(offer.pools))}
        self._meter = meter
        metered = meter.steps
        offer.validate()
        self.steps = meter.steps - metered

    @property
    def solution(self) -> Sequence[Sequence[Pick]]:
        assert self.solved, "there is no solution"
        return self._picks

    def run(self, steps: int) -> bool:
        """Runs about this many steps. Returns whether the search has ended. After an exception, it cannot go on."""
        until = self.steps + steps
        self.can_go_on = False
        while self.solved is None and self.steps < until:
            metered = self._meter.steps
            self._step()
            self.steps += 1 + self._meter.steps - metered
        self.can_go_on = True
        return self.solved is not None

    # Moving

    def _step(self) -> None:
        if self._signal == _FORWARD:
            self._forward()
        elif self._stack:
            self._backward(self._stack[-1])
        elif self._signal == _EXCEEDED and self._exceeded_claim == 0:
            raise AllocationError("allocation max size exceeded")
        else:
            self.solved = False

    def _forward(self) -> None:
        claim, request, alternative, k, start = self._at
        claims = self.offer.problem.claims
        if claim == len(claims):
            self.solved = True
            return
        requests = claims[claim].requests
        if request == len(requests):
            self._at = (claim + 1, 0, -1, 0, 0)
            return
        prepared = requests[request]
        if prepared.alternatives and alternative < 0:
            if not prepared.asks:
                self._signal = _FAILED
                return
            self._stack.append(_Frame(claim, request, 0, None, 0, 0))
            self._at = (claim, request, 0, 0, 0)
            return
        ask = prepared.asks[max(alternative, 0)]
        needed = self.offer.needed(ask)
        if ask.all_devices and not needed:
            self._signal = _FAILED
        elif k >= needed:
            self._at = (claim, request + 1, -1, 0, 0)
        elif len(self._picks[claim]) + needed - k > MAX_RESULTS:
            self._signal, self._exceeded_claim = _EXCEEDED, claim
        else:
            frame = _Frame(claim, request, alternative, ask, k, start)
            self._stack.append(frame)
            self._advance(frame, ask)

    def _backward(self, frame: _Frame) -> None:
        if self._signal == _EXCEEDED and frame.claim < self._exceeded_claim:
            self._signal = _FAILED
        ask = frame.ask
        if ask is None:
            self._next_alternative(frame)
            return
        self._give_back(frame, ask)
        if ask.all_devices or self._signal == _EXCEEDED:
            self._stack.pop()
            return
        if self._prunes:
            frame.failed.add((self._role(frame.position), self._situation(frame.position)))
        self._advance(frame, ask)

    def _next_alternative(self, frame: _Frame) -> None:
        if self._signal == _FAILED:
            frame.all_exceeded = False
        frame.alternative += 1
        if frame.alternative < len(self.offer.problem.claims[frame.claim].requests[frame.request].asks):
            self._signal = _FORWARD
            self._at = (frame.claim, frame.request, frame.alternative, 0, 0)
            return
        self._stack.pop()
        self._exceeded_claim = frame.claim
        self._signal = _EXCEEDED if frame.all_exceeded else _FAILED

    def _advance(self, frame: _Frame, ask: PreparedAsk) -> None:
        """Takes the next device with which the frame can go on, or drops the frame."""
        order = self.offer.wanted(ask) if ask.all_devices else self._order_of(ask)
        until = frame.next + 1 if ask.all_devices else len(order)
        for index in range(frame.next, until):
            position = order[index]
            if frame.failed and (self._role(position), self._situation(position)) in frame.failed:
                continue
            self.steps += 1
            if self._take(ask, position, frame):
                frame.position, frame.next = position, index + 1
                self._signal = _FORWARD
                self._at = (frame.claim, frame.request, frame.alternative, frame.k + 1, index + 1)
                return
        self._stack.pop()
        self._signal = _FAILED

    def _order_of(self, ask: PreparedAsk) -> Sequence[int]:
        found = self._orders.get(ask)
        if found is None:
            found = range(len(self.offer.devices)) if self._order is None else self._order(ask)
            self._orders[ask] = found
        return found

    # Single devices

    def _take(self, ask: PreparedAsk, position: int, frame: _Frame) -> bool:
        """Allocates the device if it is free, selected and allowed. Raises AllocationError."""
        item, offer, claim = self.offer.devices[position], self.offer, frame.claim
        taken = self._taken.get(position)
        if ask.ask.admin:
            if taken and claim in taken:
                return False
        elif taken or offer.usage.in_use(item.device_id):
            return False
        if not ask.all_devices and not offer.matches(ask, position, claim):
            return False
        shape = item.device.shape
        free = needs_no_check(ask, shape) and not offer.usage.shared(item.device_id)
        consumption = None if free else offer.consumption(ask, position, claim)
        enough = free or (consumption is not None and self._has_capacity(position, item, consumption))
        if not enough and not ask.all_devices:
            return False
        counted = bool(item.device.counter_sets) and not (
            shape.allow_multiple and (position in self._shares or offer.usage.shared(item.device_id))
        )
        if counted and not self._has_counters(self.offer.pools[position], item):
            return False
        if item.taints and not ask.tolerates(item.taints):
            return False
        if not self._constraints[claim].allow(ask.ask, shape):
            if ask.all_devices:
                raise AllocationError(
                    f", request {ask.ask.name}: cannot add device {'/'.join(item.device_id)} "
                    "because a claim constraint would not be satisfied",
                    claim,
                )
            return False
        if not enough:
            return False
        self._constraints[claim].add(ask.ask, shape)
        if counted:
            self._consume(self.offer.pools[position], item, 1)
        if not shape.allow_multiple:
            self._taken.setdefault(position, []).append(claim)
            consumption = None
        else:
            assert consumption is not None, "a share has a consumption"
            self._shares.setdefault(position, []).append(consumption)
        self._picks[claim].append(Pick(ask, item, consumption))
        frame.counted = counted
        return True

    def _give_back(self, frame: _Frame, ask: PreparedAsk) -> None:
        """Undoes `_take`, for the device that was taken last."""
        position, claim = frame.position, frame.claim
        item = self.offer.devices[position]
        self._picks[claim].pop()
        held: dict[int, list[Any]] = self._shares if item.device.shape.allow_multiple else self._taken
        held[position].pop()
        if not held[position]:
            del held[position]
        if frame.counted:
            self._consume(self.offer.pools[position], item, -1)
        self._constraints[claim].remove(ask.ask)

    def _has_capacity(self, position: int, item: PoolDevice, consumption: Consumption) -> bool:
        used = self.offer.usage.consumed(item.device_id)
        shares = self._shares.get(position, ())
        for i, (name, amount, value) in enumerate(consumption.amounts):
            if used.get(name, 0) + amount + sum(share.amounts[i][1] for share in shares) > value:
                return False
        return True

    def _has_counters(self, pool: Pool, item: PoolDevice) -> bool:
        available = self._counters.of(pool)
        if available.overdrawn:
            return False
        consumed = self._consumed.get(pool, {})
        wanted: dict[tuple[str, str], int] = {}
        for name, counter, amount in item.device.consumes:
            wanted[name, counter] = wanted.get((name, counter), 0) + amount
        return all(available.amounts[key] >= consumed.get(key, 0) + amount for key, amount in wanted.items())

    def _consume(self, pool: Pool, item: PoolDevice, sign: int) -> None:
        consumed = self._consumed.setdefault(pool, {})
        for name, counter, amount in item.device.consumes:
            consumed[name, counter] = consumed.get((name, counter), 0) + sign * amount

    # Equivalent devices

    def signature(self, *, shapes: bool = False) -> Hashable | None:
        """Equal for nodes on which the search has the same result. None: an ask fails on a device, so they cannot be
        compared.

        `shapes`: also equal shapes of the devices.
        """
        offer = self.offer
        roles = tuple(self._role(position) for position in range(len(offer.devices)))
        if any(role[0] == _FAILING for role in roles):
            return None
        counters = [tuple(self._counters.of(pool).amounts.items()) for pool in self._pool_numbers if pool.counters]
        numbers = tuple(item.shape_number for item in offer.devices) if shapes else ()
        return roles, tuple(counters), numbers

    def _role(self, position: int) -> tuple[Hashable, ...]:
        """Equal for devices that all asks and constraints of the problem treat in the same way."""
        role = self._roles.get(position)
        if role is None:
            role = self._roles[position] = self._compute_role(position)
        return role

    def _compute_role(self, position: int) -> tuple[Hashable, ...]:
        offer = self.offer
        item = offer.devices[position]
        shape = item.device.shape
        parts: list[Hashable] = [offer.usage.state_of(item.device_id), item.taints and self._tolerating(item)]
        if item.slice.per_device:
            parts.append(item.device.reach.covers(offer.node.name, offer.node.labels))
        plain = not offer.usage.shared(item.device_id)
        for claim in offer.problem.claims:
            for request in claim.requests:
                for ask in request.asks:
                    outcome = offer.outcome(ask, position)
                    if outcome == FAILS:
                        return (_FAILING, position)
                    parts.append(outcome)
                    plain &= needs_no_check(ask, shape)
            parts += [shape.attribute(constraint.attribute) for constraint in claim.spec.constraints]
        if item.device.counter_sets:
            parts += [self._pool_numbers[offer.pools[position]], item.device.counter_sets, item.device.consumes]
        if not plain:
            parts.append(item.shape_number)
        return tuple(parts)

    def _tolerating(self, item: PoolDevice) -> Hashable:
        claims = self.offer.problem.claims
        return tuple(ask.tolerates(item.taints) for c in claims for request in c.requests for ask in request.asks)

    def _situation(self, position: int) -> Hashable:
        """Returns this search's use of the device so far."""
        shares = self._shares.get(position, ())
        return tuple(self._taken.get(position, ())), tuple(share.amounts for share in shares)
