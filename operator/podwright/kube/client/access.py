"""What is there and what we may do: asked before anything is watched.

A kind that does not exist or may not be read is left out, and the log says so once; without nodes or pods we cannot work
at all (`AccessError`). Kopf and the reflectors are only ever pointed at what passed here.
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


async def exists(http: Http, resource: Resource) -> bool:
    """Whether the API server serves the kind. Raises ClusterError without a clear answer."""
    try:
        served = await http.call_with_retries("GET", resource.root)
    except ApiError as error:
        if error.status in (403, 404):
            return False
        raise
    return any(item.get("name") == resource.plural for item in served.get("resources", ()))


async def may(http: Http, resource: Resource, verb: str, subresource: str = "", namespace: str = "") -> bool:
    """Whether we may do that with objects of the kind, in all namespaces or in one. Raises ClusterError."""
    attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
    if subresource:
        attributes["subresource"] = subresource
    if namespace:
        attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await http.call_with_retries("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer.get("status", {}).get("allowed"))


async def obstacle(http: Http, resource: Resource, verbs: Iterable[str] = READ) -> str | None:
    """Why we cannot do all that with a kind, in words; None if we can. Raises ClusterError."""
    if not await exists(http, resource):
        return "the API server does not serve it"
    for verb in verbs:
        if not await may(http, resource, verb):
            return f"RBAC does not let us {verb} it"
    return None


async def readable(http: Http, resources: Sequence[Resource]) -> list[Resource]:
    """Those that can be listed and watched; the others are named in the log. Raises ClusterError."""
    found = await asyncio.gather(*(obstacle(http, resource) for resource in resources))
    for resource, problem in zip(resources, found, strict=True):
        if problem is not None:
            log.warning("%s is off: %s", resource.collection, problem)
    return [resource for resource, problem in zip(resources, found, strict=True) if problem is None]


async def server_minor(http: Http) -> int | None:
    """The API server's minor version, 36 of 1.36.2; None if it does not tell. Raises ClusterError."""
    version = await http.call_with_retries("GET", "/version")
    digits = re.match(r"\d+", str(version.get("minor", "")))
    return int(digits[0]) if digits else None


async def require(http: Http, resources: Sequence[Resource]) -> None:
    """Raises AccessError unless all can be listed and watched, and ClusterError without a clear answer."""
    found = await asyncio.gather(*(obstacle(http, resource) for resource in resources))
    problems = [f"{r.collection}: {p}" for r, p in zip(resources, found, strict=True) if p is not None]
    if problems:
        raise AccessError("; ".join(problems))
