"""The result of a search as the API has it: `status.allocation` of each claim.

Source: `Allocate` in k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from podwright.core.devices.errors import AllocationError
from podwright.core.devices.problem import PreparedAsk, PreparedClaim
from podwright.core.devices.search import DeviceSearch, Pick
from podwright.core.objects.devices.classes import DeviceClass
from podwright.core.objects.raw import Raw

Result = dict[str, Any]


def allocations_of(search: DeviceSearch, claims: Sequence[str], share_id: Callable[[], str]) -> list[Result]:
    """A v1.AllocationResult for each claim of a solved search. `claims`: their names, for errors; `share_id`: makes a
    new one.

    Raises AllocationError.
    """
    results = []
    for position, (claim, picks) in enumerate(zip(search.offer.problem.claims, search.solution, strict=True)):
        devices: Result = {}
        if picks:
            devices["results"] = [_result(pick, share_id) for pick in picks]
        if config := _config(claim, _chosen(claim, picks)):
            devices["config"] = config
        result: Result = {"devices": devices}
        selector = _node_selector(picks, search.offer.node.name, claims[position])
        if selector is not None:
            result["nodeSelector"] = selector
        results.append(result)
    return results


def _result(pick: Pick, share_id: Callable[[], str]) -> Result:
    ask, item = pick.ask.ask, pick.item
    driver, pool, device = item.device_id
    result: Result = {"request": ask.reference, "driver": driver, "pool": pool, "device": device}
    if ask.admin:
        result["adminAccess"] = True
    if ask.raw_tolerations:
        result["tolerations"] = list(ask.raw_tolerations)
    if item.device.binding_conditions:
        result["bindingConditions"] = list(item.device.binding_conditions)
    if item.device.binding_failure_conditions:
        result["bindingFailureConditions"] = list(item.device.binding_failure_conditions)
    if pick.consumption is not None:
        result["shareID"] = share_id()
        if pick.consumption.texts:
            result["consumedCapacity"] = dict(pick.consumption.texts)
    return result


def _chosen(claim: PreparedClaim, picks: Sequence[Pick]) -> list[PreparedAsk]:
    """The ask of each request that was allocated. An alternative for no devices is the first one."""
    picked = {id(pick.ask) for pick in picks}
    return [next((ask for ask in request.asks if id(ask) in picked), request.asks[0]) for request in claim.requests]


def _config(claim: PreparedClaim, chosen: Sequence[PreparedAsk]) -> list[Result]:
    """The configuration of the classes, each once, then that of the claim, as far as they concern what was
    allocated.
    """
    config: list[Result] = []
    of_class: dict[DeviceClass, list[Result]] = {}
    for ask in chosen:
        found = ask.device_class
        if found is None:
            continue
        if found not in of_class:
            of_class[found] = [{**raw, "source": "FromClass", "requests": []} for raw in found.config]
            config += of_class[found]
        for entry in of_class[found]:
            entry["requests"].append(ask.ask.reference)
    for raw in claim.spec.config:
        requests = raw.get("requests") or ()
        if not requests or any(_named(ask, requests) for ask in chosen):
            config.append({**raw, "source": "FromClaim", "requests": list(requests)})
    for entry in config:
        if not entry["requests"] or all(_named(ask, entry["requests"]) for ask in chosen):
            del entry["requests"]
    return config


def _named(ask: PreparedAsk, requests: Sequence[str]) -> bool:
    """True if a list of requests names the request of the ask, or the alternative."""
    return (ask.ask.parent or ask.ask.name) in requests or ask.ask.reference in requests


def _node_selector(picks: Sequence[Pick], node: str, claim: str) -> Raw | None:
    """The nodes on which all the devices are available; None: all nodes. Raises AllocationError."""
    fields: list[Raw] = []
    expressions: list[Raw] = []
    for pick in picks:
        source = pick.item.slice
        reach = pick.item.device.reach if source.per_device else source.reach
        if reach.node_name or pick.item.device.binds_to_node:
            return {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
            }
        terms = (reach.raw_selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.rpartition('/')[2]}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.get("matchFields") or (), fields)
            _add_new(term.get("matchExpressions") or (), expressions)
    if not fields and not expressions:
        return None
    found = {"matchFields": fields, "matchExpressions": expressions}
    return {"nodeSelectorTerms": [{key: value for key, value in found.items() if value}]}


def _add_new(requirements: Sequence[Raw], to: list[Raw]) -> None:
    for requirement in requirements:
        if not any(_same(requirement, known) for known in to):
            to.append(requirement)


def _same(one: Raw, other: Raw) -> bool:
    keys = ("key", "operator")
    return all(one.get(key) == other.get(key) for key in keys) and set(one.get("values") or ()) == set(
        other.get("values") or ()
    )
