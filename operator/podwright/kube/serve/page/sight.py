"""Sight: whose pods a viewer may see on the page. The gate of the port decides it, before the request is handled."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.names import is_dns_label

FILES: Final = "/page"
"""The path of the page. Its files are below it."""
STREAM: Final = "/page/stream"
NODE: Final = "/page/node"
POLICY: Final = "/page/policy"
SEARCH: Final = "/page/search"
PLAN: Final = "/page/plan"
PICTURE: Final = "/page/picture"
DATA: Final = (STREAM, NODE, POLICY, SEARCH, PLAN, PICTURE)
"""The paths that tell about the cluster. All others below FILES are files."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`namespace`: the pods of this namespace, "" for those of all; None: no pods, only counts."""

    namespace: str | None

    def shows(self, namespace: str) -> bool:
        """True if the pods of a namespace are shown by name."""
        return self.namespace is not None and self.namespace in ("", namespace)


EVERYTHING: Final = Sight("")
NOTHING: Final = Sight(None)
SIGHT: Final = web.RequestKey("podwright_sight", Sight)


def is_file(path: str) -> bool:
    """True if a path is that of a file of the page, which everybody may read."""
    return (path == FILES or path.startswith(f"{FILES}/")) and path not in DATA


def is_foreign(request: web.Request) -> bool:
    """True if another website has a browser send the request. Programs other than browsers do not say who does."""
    return request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")


def wanted_namespace(request: web.Request) -> str:
    """The namespace whose pods a request asks for, "" for all. Raises HTTPBadRequest if it is no name."""
    namespace = request.query.get("namespace", "")
    if namespace and not is_dns_label(namespace):
        raise web.HTTPBadRequest(reason="namespace is no name of a namespace")
    return namespace
