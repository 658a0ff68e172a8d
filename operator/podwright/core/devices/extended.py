"""The requests for devices in place of a pod's extended resources, and which container gets which device.

Containers that run at the same time get requests of their own; init containers use those of later containers, and one
more request for what these do not cover. Source: `createRequestsAndMappings` in kube-scheduler's plugin
DynamicResources (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from podwright.core.objects.devices.claims import EXACT
from podwright.core.objects.devices.classes import IMPLICIT_RESOURCE
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import containers_of
from podwright.core.objects.quantity import NANO, parse_quantity
from podwright.core.objects.raw import Raw, as_mapping
from podwright.core.objects.resources import is_extended_resource


class Mapped(NamedTuple):
    """The requests of the claim, and for each container and resource the request that serves it, as the API has
    them.
    """

    requests: list[dict[str, Any]]
    mappings: list[dict[str, str]]


class _Own(NamedTuple):
    """The request of a container for one resource."""

    name: str
    devices: int


def can_stand_for(resource: str) -> bool:
    """True if a device class can stand for a resource with this name."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_RESOURCE)


def requests_for(spec: Raw, classes: Mapping[str, str]) -> Mapped:
    """`spec`: the pod's; `classes`: the names of the classes by extended resource. A container that cannot be read asks
    for nothing.
    """
    try:
        inits, containers = containers_of(spec, "initContainers"), containers_of(spec, "containers")
    except InvalidObjectError:
        return Mapped([], [])
    requests: list[dict[str, Any]] = []
    mappings: list[dict[str, str]] = []
    everyone = (*inits, *containers)
    short_lived = [i for i, c in enumerate(inits) if c.get("restartPolicy") != "Always"]
    for resource in sorted(classes):
        long_lived: list[_Own | None] = [None] * len(everyone)
        for i, container in enumerate(everyone):
            if i not in short_lived:
                long_lived[i] = _own(i, container, resource, (), mappings)
        first = len(mappings)
        greatest: _Own | None = None
        names = set()
        for i in short_lived:
            own = _own(i, everyone[i], resource, [found for found in long_lived[i:] if found], mappings)
            if own is not None:
                names.add(own.name)
                if greatest is None or greatest.devices < own.devices:
                    greatest = own
        if greatest is not None:
            for mapping in mappings[first:]:
                if mapping["requestName"] in names:
                    mapping["requestName"] = greatest.name
        requests += [_request(found, classes[resource]) for found in (greatest, *long_lived) if found is not None]
    requests.sort(key=lambda request: str(request["name"]))
    return Mapped(requests, mappings)


def _own(
    index: int, container: Raw, resource: str, reusable: Sequence[_Own], mappings: list[dict[str, str]]
) -> _Own | None:
    """The container's own request, if the reusable ones are not enough. Adds to `mappings`."""
    requested = _requests(container)
    amount = _amount(requested, resource)
    if not amount:
        return None
    name = str(container.get("name") or "")

    def add(request: str) -> None:
        mappings.append({"containerName": name, "resourceName": resource, "requestName": request})

    covered = 0
    for known in reusable:
        covered += known.devices
        add(known.name)
        if covered >= amount:
            return None
    own = _Own(f"container-{index}-request-{sorted(requested).index(resource)}", amount - covered)
    add(own.name)
    return own


def _requests(container: Raw) -> Raw:
    try:
        return as_mapping(as_mapping(container.get("resources"), "").get("requests"), "")
    except InvalidObjectError:
        return {}


def _amount(requests: Raw, resource: str) -> int:
    """A whole number of devices; 0 for anything else."""
    if resource not in requests:
        return 0
    try:
        nanos = parse_quantity(requests[resource], resource)
    except InvalidObjectError:
        return 0
    return 0 if nanos % NANO or nanos < 0 else nanos // NANO


def _request(own: _Own, device_class: str) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": EXACT, "count": own.devices}
    return {"name": own.name, "exactly": exactly}
