"""Gates: a gate passes a request to its handler, or refuses it."""

from __future__ import annotations

import ipaddress
from typing import Final, Protocol

from aiohttp import web

from podwright.kube.serve.answers.explanations import PATH
from podwright.kube.serve.answers.pod_resources import RESOURCES_PATH
from podwright.kube.serve.answers.shadow_reports import SHADOW_PATH
from podwright.kube.serve.page.sight import DATA, EVERYTHING, SIGHT, Sight, is_foreign, wanted_namespace

PUBLIC: Final = ("/livez", "/readyz", "/healthz")
"""The paths of plain HTTP that everybody may read, with the paths below them."""
ABOUT_PODS: Final = (PATH, SHADOW_PATH, RESOURCES_PATH, *DATA)
"""The paths whose answers name pods or describe the cluster."""


class AccessGate(Protocol):
    """Decides about the requests of one port."""

    async def refusal(self, request: web.Request) -> web.StreamResponse | None:
        """The answer to a request that may not pass; None if it may."""


class LoopbackGate:
    """The gate of plain HTTP, which has no users: health for everybody, everything else for clients on this machine
    only.
    """

    async def refusal(self, request: web.Request) -> web.StreamResponse | None:
        if request.path in PUBLIC or request.path.startswith(tuple(f"{path}/" for path in PUBLIC)):
            return None
        if is_loopback(request.remote or ""):
            return self._refusal_on_loopback(request)
        text = f"{request.path} is served to other hosts over HTTPS only (--secure-port)\n"
        return web.Response(status=403, text=text)

    def _refusal_on_loopback(self, request: web.Request) -> web.StreamResponse | None:
        """The port has no authentication, so another website in a browser on this machine must not get anything about
        pods.
        """
        if request.path not in ABOUT_PODS:
            return None
        if not is_own_name(request.host) or is_foreign(request):
            return web.Response(status=403, text=f"{request.path} is not for other websites: open it under localhost\n")
        if request.path in DATA:
            namespace = wanted_namespace(request)
            request[SIGHT] = Sight(namespace) if namespace else EVERYTHING
        return None


def is_own_name(host: str) -> bool:
    """True if the header Host is an IP address or localhost. Another website can give this machine a name of its own,
    but neither of these.
    """
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name == "localhost" or _address(name) is not None


def is_loopback(host: str) -> bool:
    """True if this is localhost, or a loopback address, which may be in brackets."""
    address = _address(host.partition("%")[0])
    if address is None:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
