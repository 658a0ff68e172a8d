"""Checks, before anything is watched, which kinds the API server serves, and which of them RBAC allows.

Invariant: Kopf and the reflectors only watch kinds that passed these checks. A kind that is not served or not readable
is left out and logged once; without nodes or pods the scheduler cannot work (`AccessError`). Used by `runtime`,
`policies` and watch/served_kinds.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from podwright.kube.client.errors import AccessError, ApiError
from podwright.kube.kinds import InNamespace, Resource

if TYPE_CHECKING:
    from podwright.kube.client.http import Http

log = logging.getLogger(__name__)

READ: Final = ("list", "watch")
QUESTIONS_AT_A_TIME: Final = 8
"""How many questions of `access_problems` are open at the same time."""

NOT_SERVED: Final = "the API server does not serve it"

Problems = Mapping[Resource, str | None]
"""Why each kind cannot be listed and watched, in words; None if it can."""


async def is_served(http: Http, resource: Resource) -> bool:
    """True if the API server serves the kind. Raises ClusterError if the answer is unclear."""
    return resource.plural in await _served(http, resource.root)


async def resource_of(http: Http, group: str, version: str, kind: str) -> Resource | None:
    """The kind as the API server serves it; None if it does not. Raises ClusterError if the answer is unclear."""
    resource = Resource(kind, group, version, "", namespaced=True)
    for item in await _resources(http, resource.root):
        if item.get("kind") == kind and "/" not in str(item.get("name")):
            return replace(resource, plural=str(item["name"]), namespaced=bool(item.get("namespaced")))
    return None


async def _served(http: Http, root: str) -> frozenset[str]:
    """The plural names that the API server serves in a group and version."""
    return frozenset(str(item.get("name")) for item in await _resources(http, root))


async def _resources(http: Http, root: str) -> Sequence[Mapping[str, Any]]:
    """Returns the resources that the API server serves in a group and version."""
    try:
        served = await http.call_with_retries("GET", root)
    except ApiError as error:
        if error.status in (403, 404):
            return ()
        raise
    return tuple(served.get("resources", ()))


async def is_allowed(
    http: Http, resource: Resource, verb: str, subresource: str = "", *, namespace: str = "", name: str = ""
) -> bool:
    """True if RBAC allows the verb on the kind, in all namespaces or in one, on all names or on one. Raises
    ClusterError.
    """
    attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
    if subresource:
        attributes["subresource"] = subresource
    if namespace:
        attributes["namespace"] = namespace
    if name:
        attributes["name"] = name
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await http.call_with_retries("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer.get("status", {}).get("allowed"))


async def access_problem(http: Http, resource: Resource) -> str | None:
    """Why the kind cannot be listed and watched, in words; None if it can. Raises ClusterError."""
    return (await access_problems(http, [resource]))[resource]


async def forbidden(http: Http, resource: Resource) -> str | None:
    """Returns the first of list and watch that RBAC forbids; None if it allows both. Raises ClusterError."""
    return _first_forbidden(await asyncio.gather(*(_may_read(http, resource, verb) for verb in READ)))


async def access_problems(http: Http, resources: Collection[Resource]) -> Problems:
    """The access problem of each kind. Each group and version is asked for once, and then the rights. Raises
    ClusterError.

    Only a few questions are open at a time: each needs a connection, and opening one takes longer than waiting for
    another's answer.
    """
    turns = asyncio.Semaphore(QUESTIONS_AT_A_TIME)

    async def ask_served(root: str) -> frozenset[str]:
        async with turns:
            return await _served(http, root)

    async def ask_allowed(resource: Resource, verb: str) -> bool:
        async with turns:
            return await _may_read(http, resource, verb)

    roots = sorted({resource.root for resource in resources})
    served = dict(zip(roots, await asyncio.gather(*map(ask_served, roots)), strict=True))

    async def problem(resource: Resource) -> str | None:
        if resource.plural not in served[resource.root]:
            return NOT_SERVED
        verb = _first_forbidden(await asyncio.gather(*(ask_allowed(resource, verb) for verb in READ)))
        return None if verb is None else f"RBAC does not let us {verb} it"

    return dict(zip(resources, await asyncio.gather(*map(problem, resources)), strict=True))


async def _may_read(http: Http, resource: Resource, verb: str) -> bool:
    namespace = resource.namespace if isinstance(resource, InNamespace) else ""
    return await is_allowed(http, resource, verb, namespace=namespace)


def _first_forbidden(allowed: Iterable[bool]) -> str | None:
    """`allowed`: for each verb of READ."""
    return next((verb for verb, may in zip(READ, allowed, strict=True) if not may), None)


def readable_of(resources: Iterable[Resource], problems: Problems, absent: Collection[str] = ()) -> list[Resource]:
    """The kinds without a problem; the others are logged. `absent`: the kinds that this version of Kubernetes does not
    have, which are not logged.
    """
    found = []
    for resource in resources:
        if (problem := problems[resource]) is None:
            found.append(resource)
        elif problem != NOT_SERVED or resource.kind not in absent:
            log.warning("%s is off: %s", resource.collection, problem)
    return found


async def server_minor(http: Http) -> int | None:
    """The API server's minor version, 36 for 1.36.2; None if it does not report one. Raises ClusterError."""
    return minor_of(await http.call_with_retries("GET", "/version"))


def minor_of(version: Mapping[str, Any]) -> int | None:
    """The minor version in an API server's answer at `/version`, or None."""
    digits = re.match(r"\d+", str(version.get("minor", "")))
    return int(digits[0]) if digits else None


async def require(http: Http, resources: Sequence[Resource]) -> None:
    """Raises AccessError unless all kinds can be listed and watched, and ClusterError if the answer is unclear."""
    require_of(resources, await access_problems(http, resources))


def require_of(resources: Iterable[Resource], problems: Problems) -> None:
    """Raises AccessError if any of these kinds has a problem."""
    found = [f"{resource.collection}: {problem}" for resource in resources if (problem := problems[resource])]
    if found:
        raise AccessError("; ".join(found))
