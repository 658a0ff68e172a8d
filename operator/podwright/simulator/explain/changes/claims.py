"""Changes of the ResourceClaims of a pod, and of the pods that have devices, after which the pod may get its devices.

The spec of a claim cannot be changed: it has to be recreated, or its template.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from podwright.core.objects.devices.claims import ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices.claims import CLAIM_KIND
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.changes.trials import ClusterChange, with_objects
from podwright.simulator.explain.results import Edit

TAINTS: Final = 3
"""How many taints of devices are tried."""


def with_claims(text: str, claims: Sequence[Mapping[str, Any]]) -> ClusterChange:
    """A change that replaces the claims of the same names by these."""
    edits = (
        Edit(
            verb="recreate",
            kind=CLAIM_KIND,
            name=raw["metadata"]["name"],
            namespace=raw["metadata"].get("namespace", ""),
            object={"spec": raw["spec"]},
        )
        for raw in claims
    )
    return with_objects(text, edits, [(CLAIM_KIND, raw) for raw in claims])


def claim_options(cache: Cache, claim: ResourceClaim, slots: list[int]) -> Iterator[ClusterChange]:
    """Changes of one request, the least first. `slots`: the rows of the nodes whose devices are considered."""
    for index, request in enumerate((claim.raw["spec"].get("devices") or {}).get("requests") or ()):
        exactly = request.get("exactly")
        if not isinstance(exactly, Mapping):
            continue
        where = f"request {request.get('name')} of claim {claim.key}"
        for text, changed in _request_options(cache, exactly, slots):
            raw = copy.deepcopy(dict(claim.raw))
            raw["spec"]["devices"]["requests"][index]["exactly"] = changed
            yield with_claims(f"{text} in {where}", [raw])


def _request_options(
    cache: Cache, exactly: Mapping[str, Any], slots: list[int]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    known = exactly.get("tolerations") or []
    for key, value, effect in islice(_taints(cache, slots), TAINTS):
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        if toleration not in known:
            yield f"tolerate {key}={value}:{effect}", {**exactly, "tolerations": [*known, toleration]}
    count = exactly.get("count") or 1
    for fewer in dict.fromkeys((count - 1, count // 2, 1)):
        if 0 < fewer < count:
            yield f"ask for {fewer} instead of {count} devices", {**exactly, "count": fewer}
    selectors = exactly.get("selectors") or []
    for index in range(len(selectors)):
        left = [*selectors[:index], *selectors[index + 1 :]]
        yield f"leave out selector #{index}", {**exactly, "selectors": left}
    if len(selectors) > 1:
        yield "leave out the selectors", {k: v for k, v in exactly.items() if k != "selectors"}


def _taints(cache: Cache, slots: list[int]) -> Iterator[tuple[str, str, str]]:
    """The taints that keep devices from being allocated."""
    cache.devices.index.refresh()
    seen: dict[tuple[str, str, str], None] = {}
    for slot in slots:
        for pool in cache.devices.index.pools_of(slot):
            for item in pool.devices:
                for taint in item.taints:
                    key = taint.key, taint.value, taint.effect
                    if key not in seen:
                        seen[key] = None
                        yield key


def having_devices(cache: Cache, node: NodeInfo) -> Iterator[PodInfo]:
    """The pods of a node that share their devices with no other pod, the least important first."""
    for other in sorted(node.pods.values(), key=lambda each: (each.priority, each.key)):
        if not other.resource_claims:
            continue
        try:
            claims = claims_of(other, cache.devices.claims)
        except ClaimsError:
            continue
        if any(claim.allocation is not None and set(claim.reserved_for) <= {other.uid} for claim in claims):
            yield other
