"""The consumption of a device's capacities by a request, by the rules of their request policies.

Source: `consumable_capacity.go` in k8s.io/dynamic-resource-allocation/structured. Fractions in ranges are rounded up to
whole numbers first, because the gate DRAFractionalCapacityRange is off by default.
"""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.parts import Amount
from podwright.core.objects.devices.slices import DeviceCapacity, DeviceShape, RequestPolicy, ValidRange
from podwright.core.objects.quantity import MAX_INT64, NANO, canonical

_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(Exception):
    """A requested amount is not allowed on any device. The text is kube-scheduler's."""


@dataclass(frozen=True, slots=True, eq=False)
class Consumption:
    """The consumption of each capacity of a device: (name, nano-units, the capacity's value in nano-units), and as
    text.
    """

    amounts: tuple[tuple[str, int, int], ...]
    texts: Mapping[str, str]


def consumption_of(asked: Mapping[str, Amount], shape: DeviceShape) -> Consumption | None:
    """Computes what an ask for these amounts consumes; None if it can never have the device. Raises CapacityError."""
    if not shape.capacity:
        return None if asked else _NOTHING
    if any(name not in shape.capacity for name in asked):
        return None
    consumed = {}
    for name, capacity in shape.capacity.items():
        try:
            amount = _consumed(asked.get(name), capacity)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.nanos < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
        consumed[name] = amount
    for name, capacity in shape.capacity.items():
        if _violates(consumed[name].nanos, capacity.policy) or consumed[name].nanos > capacity.value.nanos:
            return None
    return Consumption(
        tuple((name, amount.nanos, shape.capacity[name].value.nanos) for name, amount in consumed.items()),
        {name: amount.text for name, amount in consumed.items()},
    )


_NOTHING = Consumption((), {})


def _consumed(asked: Amount | None, capacity: DeviceCapacity) -> Amount:
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.least is not None:
        return _in_range(asked, policy.valid_range, policy.valid_range.least)
    return next((value for value in policy.valid_values if asked.nanos <= value.nanos), asked)


def _in_range(asked: Amount, valid: ValidRange, least: Amount) -> Amount:
    if asked.nanos < least.nanos:
        return least
    if valid.step is None:
        return asked
    if asked.nanos > MAX_INT64 * NANO:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {asked.text} exceeds MaxInt64")
    first, step = _whole(least.nanos), _whole(valid.step.nanos)
    if step <= 0:
        return asked
    steps = -(-(_whole(asked.nanos) - first) // step)
    if first + steps * step > MAX_INT64:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: rounding request {asked.text} up to the next step passes MaxInt64")
    nanos = (first + steps * step) * NANO
    return Amount(nanos, canonical(nanos, valid.step.text))


def _whole(nanos: int) -> int:
    return -(-nanos // NANO)


def _violates(nanos: int, policy: RequestPolicy | None) -> bool:
    """True if the policy does not allow the amount. The default is always allowed."""
    if policy is None or (policy.default is not None and nanos == policy.default.nanos):
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and all(nanos != value.nanos for value in policy.valid_values)
    if valid.most is not None and nanos > valid.most.nanos:
        return True
    if valid.step is None:
        return False
    step = _whole(valid.step.nanos)
    first = 0 if valid.least is None else _whole(valid.least.nanos)
    return step > 0 and (_whole(nanos) - first) % step != 0
