"""The user as whom a client asks to be answered, with kubectl's --as: the headers `Impersonate-User` and
`Impersonate-Group`.

Source: the Kubernetes documentation, "User impersonation", and k8s.io/apiserver, pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from aiohttp import web

from podwright.kube.serve.access.delegation import ANONYMOUS, AUTHENTICATED, User

_PREFIX: Final = "Impersonate-"
_USER, _GROUP = f"{_PREFIX}User", f"{_PREFIX}Group"
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)").fullmatch


class ImpersonationError(Exception):
    """The headers cannot be followed."""


class Impersonated(NamedTuple):
    """A kind that RBAC knows for the verb `impersonate`, with the namespace ("" for none) and name of what it is."""

    resource: str
    namespace: str
    name: str


def impersonated(request: web.Request) -> tuple[User, Iterator[Impersonated]] | None:
    """The user, and all that the client must be allowed to impersonate for that; None if the headers name none. Raises
    ImpersonationError.
    """
    given = {name.title() for name in request.headers if name.title().startswith(_PREFIX)}
    if not given:
        return None
    name, groups = request.headers.get(_USER, ""), tuple(request.headers.getall(_GROUP, ()))
    if not name or given - {_USER, _GROUP}:
        raise ImpersonationError("only a user, with groups, can be impersonated here")
    return User(name, _groups_of(name, groups)), _needed(name, groups)


def _groups_of(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == ANONYMOUS.name:
        return groups or ANONYMOUS.groups
    if (account := _ACCOUNT(name)) and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[1]}")
    return tuple(dict.fromkeys((*groups, AUTHENTICATED)))


def _needed(name: str, groups: tuple[str, ...]) -> Iterator[Impersonated]:
    if account := _ACCOUNT(name):
        yield Impersonated("serviceaccounts", account[1], account[2])
    else:
        yield Impersonated("users", "", name)
    for group in groups:
        yield Impersonated("groups", "", group)
