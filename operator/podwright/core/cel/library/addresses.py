"""IP addresses and networks in expressions. Source of the rules: `library/ip.go` and `cidr.go` of
`k8s.io/apiserver/pkg/cel`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.conversions import to_string
from podwright.core.cel.library.go_text import quoted
from podwright.core.cel.library.signatures import is_readable, unary
from podwright.core.cel.values import Function, Opaque, Value, no_such_overload
from podwright.core.objects.dataclass import dataclass

Address = IPv4Address | IPv6Address

_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_MAX_TEXT: Final = 64
"""No address is as long."""


@dataclass(frozen=True, eq=False, slots=True)
class IP(Opaque):
    """An address, IPv4 or IPv6 without a zone."""

    cel_type = types.IP
    address: Address

    def equals(self, other: object) -> bool:
        """cel-go compares with addresses only."""
        if not isinstance(other, IP):
            raise no_such_overload()
        return self.address == other.address

    def go_size(self) -> int:
        """Its bytes."""
        return self.address.max_prefixlen // 8

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, eq=False, slots=True)
class CIDR(Opaque):
    """An address with the length of its prefix. The bits behind the prefix may be set."""

    cel_type = types.CIDR
    address: Address
    bits: int

    def equals(self, other: object) -> bool:
        """cel-go compares with networks only."""
        if not isinstance(other, CIDR):
            raise no_such_overload()
        return (self.address, self.bits) == (other.address, other.bits)

    def go_size(self) -> int:
        """The bytes of its prefix."""
        return -(-self.bits // 8)

    def masked(self) -> CIDR:
        """The network without the bits behind the prefix."""
        free = self.address.max_prefixlen - self.bits
        return CIDR(type(self.address)(int(self.address) >> free << free), self.bits)

    def contains(self, address: Address) -> bool:
        """True if an address of the same family has the prefix."""
        if address.version != self.address.version:
            return False
        free = address.max_prefixlen - self.bits
        return int(address) >> free == int(self.address) >> free

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


def _parsed(text: str) -> Address:
    try:
        found = ip_address(text) if len(text) <= _MAX_TEXT else None
    except ValueError:
        found = None
    if found is None:
        reason = f"ParseAddr({quoted(text)}): unable to parse IP"
        raise EvaluationError(f"IP Address {quoted(text)} parse error during conversion from string: {reason}")
    if "%" in text:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    _refuse_mapped(found, text)
    return found


def _refuse_mapped(address: Address, text: str) -> None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")


def _parsed_network(text: str) -> CIDR:
    address, slash, bits = text.rpartition("/")
    try:
        found = ip_address(address) if len(text) <= _MAX_TEXT and "%" not in text else None
    except ValueError:
        found = None
    reason = None
    if not slash:
        reason = "no '/'"
    elif found is None:
        reason = f"ParseAddr({quoted(address)}): unable to parse IP"
    elif not _BITS.fullmatch(bits):
        reason = f"bad bits after slash: {quoted(bits)}"
    elif int(bits) > found.max_prefixlen:
        reason = "prefix length out of range"
    if found is None or reason:
        raise EvaluationError(f"{_NETWORK}: {_NETWORK}: netip.ParsePrefix({quoted(text)}): {reason}")
    try:
        _refuse_mapped(found, text)
    except EvaluationError as error:
        raise EvaluationError(f"{_NETWORK}: {error}") from None
    return CIDR(found, int(bits))


_NETWORK: Final = "network address parse error during conversion from string"


def _ip(value: Value) -> IP:
    if isinstance(value, CIDR):
        return IP(value.address)
    if value.__class__ is not str:
        raise no_such_overload("ip", value)
    return IP(_parsed(value))


def _of_ip(name: str, get: Callable[[Address], Value]) -> Function:
    return unary(name, IP, lambda value: get(value.address))


_LOCAL_GROUPS: Final = int(IPv4Address("224.0.0.0")) >> 8


def _is_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == _LOCAL_GROUPS
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(address: Address) -> bool:
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def _contains_ip(network: Value, other: Value) -> bool:
    if not isinstance(network, CIDR) or not isinstance(other, IP | str):
        raise no_such_overload("containsIP", network, other)
    if isinstance(other, IP):
        return network.contains(other.address)
    try:
        return network.contains(_parsed(other))
    except EvaluationError:
        raise no_such_overload() from None


def _contains_cidr(network: Value, other: Value) -> bool:
    if not isinstance(network, CIDR) or not isinstance(other, CIDR | str):
        raise no_such_overload("containsCIDR", network, other)
    inner = _parsed_network(other) if isinstance(other, str) else other
    return network.bits <= inner.bits and network.contains(inner.address)


def _string(value: Value) -> str:
    return str(value) if isinstance(value, IP | CIDR) else to_string(value)


PLAIN: Final[dict[str, Function]] = {
    "ip": _ip,
    "isIP": is_readable("isIP", _parsed),
    "ip.isCanonical": unary("ip.isCanonical", str, lambda text: str(_parsed(text)) == text),
    "family": _of_ip("family", lambda address: address.version),
    "isUnspecified": _of_ip("isUnspecified", lambda address: address.is_unspecified),
    "isLoopback": _of_ip("isLoopback", lambda address: address.is_loopback),
    "isLinkLocalMulticast": _of_ip("isLinkLocalMulticast", _is_local_multicast),
    "isLinkLocalUnicast": _of_ip("isLinkLocalUnicast", lambda address: address.is_link_local),
    "isGlobalUnicast": _of_ip("isGlobalUnicast", _is_global_unicast),
    "cidr": unary("cidr", str, _parsed_network),
    "isCIDR": is_readable("isCIDR", _parsed_network),
    "prefixLength": unary("prefixLength", CIDR, lambda network: network.bits),
    "masked": unary("masked", CIDR, CIDR.masked),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "string": _string,
}
