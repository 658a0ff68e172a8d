"""URLs in expressions, as Go's `net/url` reads them. Source of the rules: `library/urls.go` of
`k8s.io/apiserver/pkg/cel`.

Go works on bytes: here texts are decoded as Latin-1 while they are taken apart.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from string import ascii_letters, digits
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.frame import ELEMENT, Frame
from podwright.core.cel.library.go_text import quoted
from podwright.core.cel.library.signatures import unary
from podwright.core.cel.values import Function, Opaque, Value, no_such_overload
from podwright.core.objects.dataclass import dataclass

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_ESCAPE: Final = re.compile(r"%([0-9a-fA-F]{2})?", re.ASCII)

_UNRESERVED: Final = ascii_letters + digits + "-_.~"
_PATH: Final = frozenset(_UNRESERVED + "$&+,/:;=@")
_RAW_PATH: Final = _PATH | frozenset("!'()*[]%")
_HOST: Final = frozenset(_UNRESERVED + "!$&'()*+,;=:[]<>\"")
_FRAGMENT: Final = frozenset(_UNRESERVED + "$&+,/:;=?@!()*")
_USER_PART: Final = frozenset(_UNRESERVED + "$&+,;=")


class _UrlError(ValueError):
    """Why a text is no URL."""


def _unescaped(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found.group(1) is None:
            raise _UrlError(f"invalid URL escape {quoted(text[found.start() : found.start() + 3])}")
        return chr(int(found.group(1), 16))

    return _ESCAPE.sub(replaced, text)


def _escaped(text: str, allowed: frozenset[str]) -> str:
    return "".join(character if character in allowed else f"%{ord(character):02X}" for character in text)


def _unescaped_host(text: str) -> str:
    for found in _ESCAPE.finditer(text):
        if found.group(1) is None:
            raise _UrlError(f"invalid URL escape {quoted(text[found.start() : found.start() + 3])}")
        if int(found.group(1), 16) < 0x80 and found.group() != "%25":
            raise _UrlError(f"invalid URL escape {quoted(found.group())}")
    for character in _ESCAPE.sub("", text):
        if character < "\x80" and character not in _HOST:
            raise _UrlError(f"invalid character {quoted(character)} in host name")
    return _unescaped(text)


@dataclass(frozen=True, eq=False, slots=True)
class Url(Opaque):
    """The parts of a URL. `text` is the URL as Go writes it, by which it compares."""

    cel_type = types.URL
    scheme: str
    host: str
    path: str
    query: str
    text: str

    def equals(self, other: object) -> bool:
        """cel-go compares with URLs only."""
        if not isinstance(other, Url):
            raise no_such_overload()
        return self.text == other.text

    @property
    def hostname(self) -> str:
        """The host without its port and brackets."""
        host = self._split()[0]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        """The port; empty if the URL names none."""
        return self._split()[1]

    def _split(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        return (host, port) if colon and _PORT.fullmatch(":" + port) else (self.host, "")

    def __str__(self) -> str:
        return self.text


def _parsed(raw: str, *, is_request: bool) -> Url:
    """Raises _UrlError."""
    if _CONTROL.search(raw):
        raise _UrlError("net/url: invalid control character in URL")
    if not raw and is_request:
        raise _UrlError("empty url")
    if raw == "*":
        return Url("", "", "*", "", "*")
    if raw.startswith(":"):
        raise _UrlError("missing protocol scheme")
    found = _SCHEME.match(raw)
    scheme = found.group(1).lower() if found else ""
    rest, mark, query = raw[found.end() if found else 0 :].partition("?")
    tail = mark + query
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query, f"{scheme}:{rest}{tail}")
        if is_request:
            raise _UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _UrlError("first path segment in URL cannot contain colon")
    user = host = ""
    has_authority = rest.startswith("//") and bool(scheme or not (is_request or rest.startswith("///")))
    if has_authority:
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    path = _path(rest)
    text = f"{scheme}:" if scheme else ""
    if host or user or (has_authority and scheme and path):
        text += "//"
    return Url(scheme, host, path, query, f"{text}{user}{_escaped(host, _HOST)}{path}{tail}")


def _path(raw: str) -> str:
    """The path as `EscapedPath` writes it."""
    normal = _escaped(_unescaped(raw), _PATH)
    return raw if raw == normal or set(raw) <= _RAW_PATH else normal


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return "", host
    if not _USER.fullmatch(user):
        raise _UrlError("net/url: invalid userinfo")
    parts = [_escaped(_unescaped(part), _USER_PART) for part in user.split(":", 1)]
    return ":".join(parts) + "@", host


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _UrlError("invalid IP-literal")
    if bracket == 0:
        inside, closing, port = host[1:].rpartition("]")
        if not closing:
            raise _UrlError("missing ']' in host")
        _check_port(port)
        name = _unescaped(inside) if "%25" in inside else _unescaped_host(inside)
        _check_literal(name)
        return f"[{name}]{port}"
    first = host.find(":")
    if first >= 0:
        _check_port(host[first if scheme in ("http", "https") else host.rfind(":") :])
    return _unescaped_host(host)


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise _UrlError(f"invalid port {quoted(port)} after host")


def _check_literal(name: str) -> None:
    try:
        address = ip_address(name)
    except ValueError:
        raise _UrlError(f"invalid host: ParseAddr({quoted(name)}): unable to parse IP") from None
    if not isinstance(address, IPv6Address):
        raise _UrlError("invalid IP-literal")


def check_request_uri(text: str) -> str | None:
    """Why a text is no absolute URL, in Go's words; None if it is one."""
    raw = text.encode().decode("latin-1")
    try:
        _parsed(raw, is_request=True)
    except _UrlError as error:
        return f"parse {quoted(text)}: {error}"
    return None


def read_url(text: str) -> Url:
    """Raises EvaluationError with Kubernetes' text if the text is no absolute URL."""
    reason = check_request_uri(text)
    if reason is None:
        raw, mark, fragment = text.encode().decode("latin-1").partition("#")
        try:
            found = _parsed(raw, is_request=False)
            shown = _fragment(fragment) if mark else ""
            parts = (found.scheme, found.host, found.path, found.query, found.text + shown)
            return Url(*(part.encode("latin-1").decode(errors="replace") for part in parts))
        except _UrlError as error:
            reason = f"parse {quoted(text)}: {error}"
    raise EvaluationError(f"URL parse error during conversion from string: {reason}")


def _fragment(raw: str) -> str:
    normal = _escaped(_unescaped(raw), _FRAGMENT)
    return f"#{raw if set(raw) <= _FRAGMENT | set('%') else normal}" if raw else ""


def _get_query(frame: Frame, value: Value) -> Value:
    if not isinstance(value, Url):
        raise no_such_overload("getQuery", value)
    found: dict[Value, Value] = {}
    for part in value.query.split("&"):
        if not part or ";" in part:
            continue
        name, _, content = part.partition("=")
        try:
            key, text = (_query_part(piece) for piece in (name, content))
        except _UrlError:
            continue
        frame.allocate(2 * ELEMENT + len(part))
        found.setdefault(key, []).append(text)
    return found


def _query_part(text: str) -> str:
    raw = _unescaped(text.encode().decode("latin-1").replace("+", " "))
    return raw.encode("latin-1").decode(errors="replace")


PLAIN: Final[dict[str, Function]] = {
    "url": unary("url", str, read_url),
    "isURL": unary("isURL", str, lambda text: check_request_uri(text) is None),
    "getScheme": unary("getScheme", Url, lambda url: url.scheme),
    "getHost": unary("getHost", Url, lambda url: url.host),
    "getHostname": unary("getHostname", Url, lambda url: url.hostname),
    "getPort": unary("getPort", Url, lambda url: url.port),
    "getEscapedPath": unary("getEscapedPath", Url, lambda url: url.path),
}
ALLOCATING: Final[dict[str, Function]] = {"getQuery": _get_query}
