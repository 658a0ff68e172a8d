"""Fair shares of the children of one queue, for one resource, in exact integer arithmetic.

What the parent may share goes out in three steps, and never more to a child than its request:

1. Guarantees: each child gets the smaller of its guarantee and its request. If these add up to more than there is, what
   there is fills them evenly in proportion to the guarantees.
2. The rest, by priority, the highest first: within one priority, evenly in proportion to the weights.
3. Whole units: fractions are cut off, and the units left over go to the largest fractions, then by name.

"Evenly in proportion" is weighted max-min: all rise at rates in proportion to their weights until their request is met
or nothing is left. Only the last of these fillings can leave fractions, because it uses up the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import lcm
from typing import Final, NamedTuple

UNBOUNDED: Final = -1
"""As a guarantee or a limit: no bound."""


class Claim(NamedTuple):
    """The claim of one child to one resource, in whole units. `guarantee` may be UNBOUNDED. A `weight` of 0 or less
    claims nothing beyond the guarantee; a finite float counts as exactly the fraction that it is.
    """

    name: str
    priority: int
    guarantee: int
    weight: float
    request: int


def share_out(room: int, claims: Sequence[Claim], rounding: dict[int, int] | None = None) -> list[int]:
    """The share of each claim, in their order. `room`: whole units.

    `rounding` gets, by the index of a claim, 1 for a share that was rounded up and -1 for one that was rounded down.
    """
    guaranteed = [
        claim.request if claim.guarantee == UNBOUNDED else min(claim.guarantee, claim.request) for claim in claims
    ]
    left = room - sum(guaranteed)
    if left < 0:
        rates = [
            amount if claim.guarantee == UNBOUNDED else claim.guarantee
            for claim, amount in zip(claims, guaranteed, strict=True)
        ]
        return _fill(room, [claim.name for claim in claims], rates, guaranteed, rounding)
    if sum(claim.request for claim in claims) <= room and all(claim.weight > 0 for claim in claims):
        return [claim.request for claim in claims]
    shares = guaranteed
    by_priority = sorted(range(len(claims)), key=lambda i: -claims[i].priority)
    for _, peers in groupby(by_priority, key=lambda i: claims[i].priority):
        wanting = [i for i in peers if claims[i].weight > 0 and claims[i].request > shares[i]]
        more = [claims[i].request - shares[i] for i in wanting]
        if sum(more) > left:
            weights, rounded = _whole([claims[i].weight for i in wanting]), dict[int, int]()
            more = _fill(left, [claims[i].name for i in wanting], weights, more, rounded)
            if rounding is not None:
                rounding.update((wanting[i], direction) for i, direction in rounded.items())
        for i, amount in zip(wanting, more, strict=True):
            shares[i] += amount
        left -= sum(more)
        if not left:
            break
    return shares


def _whole(weights: Sequence[float]) -> list[int]:
    """Whole numbers in the proportion of these weights."""
    ratios = [weight.as_integer_ratio() for weight in weights]
    scale = lcm(*(below for _, below in ratios))
    return [above * (scale // below) for above, below in ratios]


def _fill(
    room: int, names: Sequence[str], rates: Sequence[int], wants: Sequence[int], rounding: dict[int, int] | None = None
) -> list[int]:
    """Weighted max-min of less room than is wanted, in whole units. `rates`: positive for whoever wants something.
    `rounding`: see `share_out`.
    """
    filled = [0] * len(wants)
    wanting = [i for i, want in enumerate(wants) if want]
    # Two ratios with denominators below 2**b differ by more than 2**-2b, or not at all: so the keys are exact.
    shift = 2 * max((rates[i] for i in wanting), default=1).bit_length()
    wanting.sort(key=lambda i: (wants[i] << shift) // rates[i])
    total = sum(rates[i] for i in wanting)
    met = 0
    for i in wanting:
        if wants[i] * total > room * rates[i]:
            break
        filled[i] = wants[i]
        room -= wants[i]
        total -= rates[i]
        met += 1
    fractions = []
    for i in wanting[met:]:
        filled[i], fraction = divmod(room * rates[i], total)
        fractions.append((-fraction, names[i], i))
    over = room - sum(filled[i] for i in wanting[met:])
    fractions.sort()
    for _, _, i in fractions[:over]:
        filled[i] += 1
    if rounding is not None:
        rounding.update((i, 1 if index < over else -1) for index, (cut, _, i) in enumerate(fractions) if cut)
    return filled
