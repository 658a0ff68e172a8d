"""Chooses the proxy to the API server by the environment, as Go's golang.org/x/net/http/httpproxy does.

HTTPS_PROXY or HTTP_PROXY name the proxy by the scheme of the server; NO_PROXY lists hosts without one: names, which
include their subdomains, addresses and networks, each with an optional port, or `*`. Loopback addresses never have a
proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from podwright.kube.client.errors import ConfigError

SCHEMES: Final = ("http", "https")
_PORTS: Final = {"http": "80", "https": "443"}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_proxy(url: str, where: str) -> str:
    """The proxy's URL, if it can be used. Raises ConfigError, which begins with `where`."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # The URL is not shown: it may contain a password.
        raise ConfigError(f"{where}: not the URL of an HTTP proxy (http://HOST:PORT or https://HOST:PORT)")
    return url


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str | None:
    """The URL of the proxy to the server, which is a URL too. Raises ConfigError for a proxy that cannot be used."""
    parts = urlsplit(server)
    names = ("HTTPS_PROXY", "https_proxy") if parts.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    name = next((name for name in names if environ.get(name)), None)
    if name is None:
        return None
    host = (parts.hostname or "").lower()
    port = str(parts.port or _PORTS.get(parts.scheme, ""))
    if not _uses_proxy(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    url = environ[name]
    return check_proxy(url if "://" in url else f"http://{url}", name)


def _uses_proxy(host: str, port: str, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    return not any(_matches(entry, host, port, address) for entry in exceptions.lower().split(","))


def _matches(entry: str, host: str, port: str, address: _Address | None) -> bool:
    """True if an entry of NO_PROXY names the host."""
    entry = entry.strip()
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(entry)
    if not name or (wanted_port and wanted_port != port):
        return False
    if (named := _address(name)) is not None:
        return named == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    """Host and port of an entry; the port is empty if it names none."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = entry.partition(":")
    return (name, port) if colon and ":" not in port else (entry, "")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
