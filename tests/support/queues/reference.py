"""Fair shares as their definition says, in fractions, without any thought for speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from podwright.core.queues.shares import UNBOUNDED, Claim


def rising(room: Fraction, rates: Sequence[Fraction], most: Sequence[Fraction]) -> list[Fraction]:
    """Weighted max-min as the definition says: all rise together until one is met or nothing is left."""
    got = [Fraction(0)] * len(rates)
    while room and (open_ := [i for i in range(len(got)) if rates[i] > 0 and got[i] < most[i]]):
        step = min([(most[i] - got[i]) / rates[i] for i in open_] + [room / sum(rates[i] for i in open_)])
        for i in open_:
            got[i] += step * rates[i]
        room -= step * sum(rates[i] for i in open_)
    return got


def reference(room: int, claims: Sequence[Claim]) -> list[int]:
    """The shares of these claims, in their order."""
    wants = [Fraction(claim.request) for claim in claims]
    rates = [
        want if claim.guarantee == UNBOUNDED else Fraction(claim.guarantee)
        for claim, want in zip(claims, wants, strict=True)
    ]
    shares = rising(Fraction(room), rates, list(map(min, rates, wants)))
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        weights = [Fraction(max(0, claim.weight) * (claim.priority == priority)) for claim in claims]
        more = rising(room - sum(shares), weights, [want - share for want, share in zip(wants, shares, strict=True)])
        shares = list(map(sum, zip(shares, more, strict=True)))
    whole = [int(share) for share in shares]
    by_fraction = sorted(range(len(claims)), key=lambda i: (whole[i] - shares[i], claims[i].name))
    for i in by_fraction[: int(sum(shares)) - sum(whole)]:
        whole[i] += 1
    return whole


def shares_of_tree(
    room: int, claims: Mapping[str, Claim], limits: Mapping[str, int], parents: Mapping[str, str]
) -> dict[str, int]:
    """The shares of all queues, by name. `claims`: with the demand of those without children as their request."""
    below: dict[str, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent, []).append(name)

    def request(name: str) -> int:
        wanted = sum(map(request, below[name])) if name in below else claims[name].request
        return wanted if limits[name] == UNBOUNDED else min(wanted, limits[name])

    found = {"": room}
    names = [""]
    for name in names:  # the loop appends to the list
        children = below.get(name, [])
        asked = [claims[child]._replace(request=request(child)) for child in children]
        found |= zip(children, reference(found[name], asked), strict=True)
        names += children
    del found[""]
    return found
