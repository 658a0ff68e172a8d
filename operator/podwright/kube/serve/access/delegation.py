"""Asks the API server, for the server of health and metrics, which user a token belongs to, and whether a user may read
a path.

Everything here runs in the scheduler's loop. Source: the Kubernetes documentation, "Authenticating" and
"Authorization".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import mapping_at
from podwright.kube.client.errors import ConfigError, if_there
from podwright.kube.client.http import Http

AUTHENTICATED: Final = "system:authenticated"
"""The group of all users that have shown who they are."""
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 -- a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
AUTHORITIES: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""The ConfigMap in which the API server says who issues its users' certificates."""


@dataclass(frozen=True, slots=True)
class User:
    """A user, as Kubernetes knows it."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


class AccessDelegation:
    """See the module. It may use one API client or two, which its owner closes."""

    def __init__(self, authentication: Http, authorization: Http) -> None:
        self._authentication = authentication
        self._authorization = authorization

    async def user_of(self, token: str) -> User | None:
        """The user that the token belongs to; None if it is not valid. Raises ClusterError, and OSError or ConfigError
        without credentials.
        """
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._authentication.call_with_retries("POST", TOKEN_REVIEWS, review)
        status = mapping_at(answer, "status")
        user = mapping_at(status, "user")
        name = user.get("username")
        if status.get("authenticated") is not True or not isinstance(name, str) or not name:
            return None
        groups = tuple(dict.fromkeys((*map(str, user.get("groups") or ()), AUTHENTICATED)))
        extra = {str(key): [*map(str, values)] for key, values in mapping_at(user, "extra").items()}
        return User(name, groups, str(user.get("uid") or ""), extra)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """True if the user may use the verb on the path. Raises as `user_of`."""
        return await self._reviewed(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def allows_pod(self, user: User, namespace: str, name: str) -> bool:
        """True if the user may get the pod. Raises as `user_of`."""
        attributes = {"verb": "get", "version": "v1", "resource": "pods", "namespace": namespace, "name": name}
        return await self._reviewed(user, {"resourceAttributes": attributes})

    async def allows_pods(self, user: User, namespace: str) -> bool:
        """True if the user may list the pods of the namespace, "" for all. Raises as `user_of`."""
        attributes = {"verb": "list", "version": "v1", "resource": "pods", "namespace": namespace}
        return await self._reviewed(user, {"resourceAttributes": attributes})

    async def allows_impersonation(self, user: User, resource: str, namespace: str, name: str) -> bool:
        """True if the user may act as this one of `users`, `groups` or `serviceaccounts`. Raises as `user_of`."""
        attributes = {
            "verb": "impersonate",
            "version": "v1",
            "resource": resource,
            "namespace": namespace,
            "name": name,
        }
        return await self._reviewed(user, {"resourceAttributes": attributes})

    async def _reviewed(self, user: User, attributes: Mapping[str, Any]) -> bool:
        spec = {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra.items()},
            **attributes,
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._authorization.call_with_retries("POST", ACCESS_REVIEWS, review)
        status = mapping_at(answer, "status")
        return status.get("allowed") is True and status.get("denied") is not True

    async def authentication(self) -> Mapping[str, Any]:
        """The issuers of client certificates that the API server publishes; empty if it publishes none. Raises the same
        errors as `user_of`.
        """
        return mapping_at(await if_there(self._authentication.call_with_retries("GET", AUTHORITIES)), "data")


FAILURES: Final = (ClusterError, ConfigError, OSError)
"""The exceptions that `AccessDelegation` raises. OSError includes TimeoutError."""
