"""What the API server serves, and what RBAC allows: asked before anything is watched.

Invariant: Kopf and the reflectors only watch kinds that passed these checks. A kind that is not served or not readable is left
out and logged once; without nodes or pods the scheduler cannot work (`AccessError`). Used by `runtime`, `policies` and
pod_groups/served_apis.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

from podwright.kube.client.errors import AccessError, ApiError
from podwright.kube.client.http import Http
from podwright.kube.kinds import InNamespace, Resource

log = logging.getLogger(__name__)

READ = ("list", "watch")


async def is_served(http: Http, resource: Resource) -> bool:
    """Whether the API server serves the kind. Raises ClusterError if the answer is unclear."""
    return resource.plural in await _served(http, resource.root)


async def _served(http: Http, root: str) -> frozenset[str]:
    """The plural names that the API server serves in a group and version."""
    try:
        served = await http.call_with_retries("GET", root)
    except ApiError as error:
        if error.status in (403, 404):
            return frozenset()
        raise
    return frozenset(str(item.get("name")) for item in served.get("resources", ()))


async def is_allowed(
    http: Http, resource: Resource, verb: str, subresource: str = "", *, namespace: str = "", name: str = ""
) -> bool:
    """Whether RBAC allows the verb on the kind, in all namespaces or in one, on all names or on one. Raises ClusterError."""
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
    return (await _problems(http, [resource]))[0]


async def forbidden(http: Http, resource: Resource) -> str | None:
    """The first of list and watch that RBAC does not let us do; None if it allows both. Raises ClusterError."""
    namespace = resource.namespace if isinstance(resource, InNamespace) else ""
    allowed = await asyncio.gather(*(is_allowed(http, resource, verb, namespace=namespace) for verb in READ))
    return next((verb for verb, may in zip(READ, allowed, strict=True) if not may), None)


async def readable(http: Http, resources: Sequence[Resource]) -> list[Resource]:
    """The kinds that can be listed and watched; the others are logged. Raises ClusterError."""
    problems = await _problems(http, resources)
    for resource, problem in zip(resources, problems, strict=True):
        if problem is not None:
            log.warning("%s is off: %s", resource.collection, problem)
    return [resource for resource, problem in zip(resources, problems, strict=True) if problem is None]


async def _problems(http: Http, resources: Sequence[Resource]) -> list[str | None]:
    """The access problem of each kind. Each group and version is asked for once, and then all rights at the same time."""
    roots = sorted({resource.root for resource in resources})
    served = dict(zip(roots, await asyncio.gather(*(_served(http, root) for root in roots)), strict=True))

    async def problem(resource: Resource) -> str | None:
        if resource.plural not in served[resource.root]:
            return "the API server does not serve it"
        verb = await forbidden(http, resource)
        return None if verb is None else f"RBAC does not let us {verb} it"

    return await asyncio.gather(*map(problem, resources))


async def server_minor(http: Http) -> int | None:
    """The API server's minor version, 36 for 1.36.2; None if it does not report one. Raises ClusterError."""
    version = await http.call_with_retries("GET", "/version")
    digits = re.match(r"\d+", str(version.get("minor", "")))
    return int(digits[0]) if digits else None


async def require(http: Http, resources: Sequence[Resource]) -> None:
    """Raises AccessError unless all kinds can be listed and watched, and ClusterError if the answer is unclear."""
    found = await _problems(http, resources)
    problems = [f"{r.collection}: {p}" for r, p in zip(resources, found, strict=True) if p is not None]
    if problems:
        raise AccessError("; ".join(problems))
