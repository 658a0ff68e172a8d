"""What the API server serves, and what RBAC allows: asked before anything is watched.

Invariant: Kopf and the reflectors only watch kinds that passed these checks. A kind that is not served or not readable is left
out and logged once; without nodes or pods the scheduler cannot work (`AccessError`). Used by `runtime`, `policies` and
pod_groups/served_apis.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence

from podwright.kube.client.errors import AccessError, ApiError
from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource

log = logging.getLogger(__name__)

READ = ("list", "watch")


async def is_served(http: Http, resource: Resource) -> bool:
    """Whether the API server serves the kind. Raises ClusterError if the answer is unclear."""
    try:
        served = await http.call_with_retries("GET", resource.root)
    except ApiError as error:
        if error.status in (403, 404):
            return False
        raise
    return any(item.get("name") == resource.plural for item in served.get("resources", ()))


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


async def access_problem(http: Http, resource: Resource, verbs: Iterable[str] = READ) -> str | None:
    """Why the verbs cannot be used on the kind, in words; None if they can. Raises ClusterError."""
    if not await is_served(http, resource):
        return "the API server does not serve it"
    for verb in verbs:
        if not await is_allowed(http, resource, verb):
            return f"RBAC does not let us {verb} it"
    return None


async def readable(http: Http, resources: Sequence[Resource]) -> list[Resource]:
    """The kinds that can be listed and watched; the others are logged. Raises ClusterError."""
    problems = await asyncio.gather(*(access_problem(http, resource) for resource in resources))
    for resource, problem in zip(resources, problems, strict=True):
        if problem is not None:
            log.warning("%s is off: %s", resource.collection, problem)
    return [resource for resource, problem in zip(resources, problems, strict=True) if problem is None]


async def server_minor(http: Http) -> int | None:
    """The API server's minor version, 36 for 1.36.2; None if it does not report one. Raises ClusterError."""
    version = await http.call_with_retries("GET", "/version")
    digits = re.match(r"\d+", str(version.get("minor", "")))
    return int(digits[0]) if digits else None


async def require(http: Http, resources: Sequence[Resource]) -> None:
    """Raises AccessError unless all kinds can be listed and watched, and ClusterError if the answer is unclear."""
    found = await asyncio.gather(*(access_problem(http, resource) for resource in resources))
    problems = [f"{r.collection}: {p}" for r, p in zip(resources, found, strict=True) if p is not None]
    if problems:
        raise AccessError("; ".join(problems))
