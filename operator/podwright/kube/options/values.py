"""How the values of options are written: for each type a parser, and the placeholder that `--help` shows.

Flags and environment variables share these parsers, so that they accept the same values and report the same errors.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from podwright.api.configuration.documents import MAX_BYTES
from podwright.api.configuration.extenders import Extenders, load_extenders
from podwright.api.configuration.load import Configuration, load_configuration
from podwright.api.configuration.signals import SignalsFile, load_signals
from podwright.api.scheduler_policy import SCHEDULER_NAME as SCHEDULER_NAME_FORM
from podwright.core.framework.features import GATES, NEWEST_MINOR, OLDEST_MINOR, expand_groups
from podwright.core.framework.known_gates import GROUPS, KNOWN_GATES
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.quantity import parse_quantity, round_up
from podwright.kube.bounded_files import read_at_most

T = TypeVar("T")

TLS_13_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""They are always on, as in Go."""
TLS_12_SUITES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
"""OpenSSL's names of cipher suites by the names that kube-scheduler takes."""
ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 -- as kube-scheduler
_TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_ON: Final = ("true", "t", "1")
_OFF: Final = ("false", "f", "0")
"""Source: Go's documentation, strconv.ParseBool."""
CURVE_NAMES: Final[Mapping[int, str]] = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
"""OpenSSL's names of curves, by the numbers of Go's crypto/tls."""
_NAME_PATTERN: Final = re.compile(r"[a-z0-9.*-]+")


class OptionsError(ValueError):
    """The value of an option is not valid."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """`parse` makes the value of its text, or raises OptionsError; `placeholder` stands for the text in `--help`.

    `joined`: the value of a flag that is given several times is that of all texts with commas between them.
    `separator`: between the values of a variable that holds several.
    """

    placeholder: str
    parse: Callable[[str], Any]
    joined: bool = False
    separator: str = os.pathsep


def choice(*names: str, any_case: bool = False) -> ValueType:
    """One of these names, in upper or lower case if `any_case`."""

    def parse(text: str) -> str:
        name = text.lower() if any_case else text
        if name not in names:
            raise OptionsError(f"{text!r} is not one of {', '.join(names)}")
        return name

    return ValueType(f"[{'|'.join(names)}]", parse)


def parse_feature_gates(text: str) -> Mapping[str, bool]:
    """`Name=true,Other=false`, or with `kube:` before each name, as kube-scheduler takes it. Raises OptionsError.

    Gates that kube-scheduler 1.37 locks are refused, except those that Podwright knows from earlier versions.
    """
    gates: dict[str, bool] = {}
    components: set[str] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        component, _, setting = part.rpartition(":")
        if component not in ("", "kube"):
            raise OptionsError(f"component not registered: {component}")
        components.add(component)
        if len(components) > 1:
            raise OptionsError("write kube: before all feature gates or before none")
        name, equals, value = setting.partition("=")
        known = KNOWN_GATES.get(name)
        if known is None and name not in GATES and name not in GROUPS:
            raise OptionsError(f"unknown feature gate {name!r}")
        if not equals or value.lower() not in (*_ON, *_OFF):
            raise OptionsError(f"feature gate {name}: {value!r} is neither true nor false")
        on = gates[name] = value.lower() in _ON
        if known is not None and known.locked and on != known.default and name not in GATES:
            wanted, locked = str(on).lower(), str(known.default).lower()
            raise OptionsError(f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")
    return expand_groups(gates)


def _scheduler_name(text: str) -> str:
    # The API server replaces an empty spec.schedulerName, so no pod can ask for it.
    if not text.strip():
        raise OptionsError("the scheduler name must not be empty")
    if not re.fullmatch(SCHEDULER_NAME_FORM, text):
        raise OptionsError(f"{text!r} does not have the form of a DNS subdomain")
    return text


def _switch(text: str) -> bool:
    if text.lower() not in _ON and text.lower() not in _OFF:
        raise OptionsError(f"{text!r} is neither true nor false")
    return text.lower() in _ON


def _scheduler_names(text: str) -> tuple[str, ...]:
    patterns = tuple(filter(None, (part.strip() for part in text.split(","))))
    for pattern in patterns:
        if not _NAME_PATTERN.fullmatch(pattern):
            raise OptionsError(
                f"{pattern!r} is not a scheduler name, and has other characters than a-z, 0-9, '-', '.' and '*'"
            )
    return patterns


def _read_as(
    expected: str, parse: Callable[[str], T], accepts: Callable[[T], bool] = lambda _value: True
) -> Callable[[str], T]:
    """A parser with the error that the text is not `expected`: if `parse` raises ValueError, or makes a value that
    `accepts` refuses.
    """

    def read(text: str) -> T:
        try:
            value = parse(text)
        except ValueError as error:
            raise OptionsError(f"{text!r} is not {expected}") from error
        if not accepts(value):
            raise OptionsError(f"{text!r} is not {expected}")
        return value

    return read


_whole: Final = _read_as("a whole number", int)


def _directory(text: str) -> str:
    if not Path(text).is_dir():
        raise OptionsError(f"{text!r} is not a directory")
    return text


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise OptionsError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def _file(text: str) -> str | None:
    return text or None


def _configuration(text: str) -> Configuration | None:
    return _loaded(text, partial(load_configuration, path=text)) if text else None


def _extenders(text: str) -> Extenders:
    return _loaded(text, load_extenders)


def _signals(text: str) -> SignalsFile:
    return _loaded(text, lambda content: SignalsFile(text, content, load_signals(content)))


def _loaded(path: str, load: Callable[[bytes], T]) -> T:
    """Returns the result of `load` for the file's content. Raises OptionsError."""
    try:
        return load(read_at_most(Path(path), MAX_BYTES))
    except (OSError, ProfileError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error).removeprefix(": ")
        raise OptionsError(f"{path}: {problem}") from error


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise OptionsError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(f"/{part.strip().removeprefix('/')}" for part in text.split(",") if part.strip())
    for path in paths:
        if "*" in path[:-1]:
            raise OptionsError(f"{path!r} has a * that is not at its end")
    return paths


def _cipher_suites(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (part.strip() for part in text.split(","))))
    for name in names:
        if name not in TLS_13_SUITES and name not in TLS_12_SUITES:
            raise OptionsError(f"unknown cipher suite {name!r}")
    return names


def _server(text: str) -> str | None:
    if not text:
        return None
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionsError(f"{text!r} is not the URL of a server")
    return url.rstrip("/")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def _minor(text: str) -> int | None:
    """The minor version of `1.36` or `kube=1.36`; None of nothing."""
    if not text:
        return None
    component, _, version = text.rpartition("=")
    if component not in ("", "kube"):
        raise OptionsError(f"component not registered: {component}")
    major, _, minor = version.removeprefix("v").partition(".")
    if major != "1" or not minor.isdecimal() or not OLDEST_MINOR <= int(minor) <= NEWEST_MINOR:
        raise OptionsError(f"{version!r} is not a version from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}")
    return int(minor)


def _previous_minor(text: str) -> str:
    previous = f"1.{NEWEST_MINOR - 1}"
    if text not in ("", previous):
        raise OptionsError(
            f"must be omitted or have the value {previous!r}; only the previous minor version is allowed"
        )
    return text


def _verbosity(text: str) -> int:
    number = text.removeprefix("=")  # of -v=2, as klog's users write it
    if not number.isdecimal():
        raise OptionsError(f"{number!r} is not a whole number from 0 up, such as 2")
    return int(number)


def _module_verbosities(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in filter(None, text.split(",")):
        pattern, equals, number = part.partition("=")
        if not pattern or not equals or not number.isdecimal():
            raise OptionsError(f"{part!r} does not have the form pattern=N")
        found.append((pattern, int(number)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class CertificateForNames:
    """The files of a certificate and of its key, and names and addresses that clients ask for; without names, those of
    the certificate.
    """

    certificate: str
    key: str
    names: tuple[str, ...] = ()


def _certificate_for_names(text: str) -> CertificateForNames:
    """Source: k8s.io/component-base, cli/flag/namedcertkey_flag.go."""
    files, colon, listed = text.strip().partition(":")
    parts = [part.strip() for part in files.split(",")]
    names = [name.strip().lower() for name in listed.split(",")] if colon else []
    if len(parts) != 2 or not all(parts) or not all(names):
        raise OptionsError(f"{text!r} does not have the form CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,…")
    certificate, key = parts
    return CertificateForNames(certificate, key, tuple(names))


def _curves(text: str) -> tuple[int, ...]:
    return tuple(_whole(part) for part in _names(text))


def _headers(text: str) -> tuple[str, ...]:
    names = _names(text)
    if not all(names):
        raise OptionsError(f"{text!r} has an empty name")
    return names


NAME: Final = ValueType("NAME", str)
HEADERS: Final = ValueType("NAME,…", _headers, joined=True)
CURVES: Final = ValueType("NUMBER,…", _curves, joined=True)
CERTIFICATE_FOR_NAMES: Final = ValueType("CERTIFICATE,KEY[:NAME,…]", _certificate_for_names, separator=";")
SERVER: Final = ValueType("URL", _server)
NAMES: Final = ValueType("NAME,…", _names, joined=True)
WHOLE: Final = ValueType("NUMBER", _whole)
NUMBER: Final = ValueType("NUMBER", _read_as("a number", float))
QUANTITY: Final = ValueType(
    "QUANTITY", _read_as("a quantity such as 512 or 4Ki", lambda text: round_up(parse_quantity(text, "")))
)
MINOR: Final = ValueType("VERSION", _minor)
"""The minor version of Kubernetes 1."""
PREVIOUS_MINOR: Final = ValueType("VERSION", _previous_minor)
CONFIGURATION: Final = ValueType("FILE", _configuration)
"""A KubeSchedulerConfiguration, read from its file."""
EXTENDERS: Final = ValueType("FILE", _extenders)
"""Extenders by name, read from a file."""
SIGNALS: Final = ValueType("FILE", _signals)
"""The definitions of signals, read from their file."""
FILE: Final = ValueType("FILE", _file)
"""A path, or None of nothing, as with kube-scheduler."""
DIRECTORY: Final = ValueType("DIRECTORY", _directory)
"""An existing directory."""
SCHEDULER_NAME: Final = ValueType("NAME", _scheduler_name)
SCHEDULER_NAMES: Final = ValueType("NAME,…", _scheduler_names, joined=True)
"""Patterns of scheduler names."""
FEATURE_GATES: Final = ValueType("NAME=true|false,…", parse_feature_gates, joined=True)
SWITCH: Final = ValueType("[true|false]", _switch)
"""On or off. The flag alone means true."""
POSITIVE: Final = ValueType("NUMBER", _read_as("a whole number greater than 0", int, lambda number: number > 0))
"""A whole number greater than 0."""
SECONDS: Final = ValueType("SECONDS", _read_as("a number of seconds", float, lambda seconds: 0 <= seconds < math.inf))
"""A number of seconds, fractions allowed."""
DURATION: Final = ValueType(
    "DURATION", _read_as("a duration such as 5m or 1m30s", parse_duration, lambda seconds: seconds >= 0)
)
"""Seconds, written as Go writes a duration: `5m`, `1m30s`."""
PORT: Final = ValueType("PORT", _port)
VERBOSITY: Final = ValueType("LEVEL", _verbosity)
MODULE_VERBOSITIES: Final = ValueType("PATTERN=N,…", _module_verbosities, joined=True)
"""Pairs of a pattern and a number, in their order."""
TLS_VERSION: Final = ValueType(
    f"[{'|'.join(_TLS_VERSIONS)}]", lambda text: choice(*_TLS_VERSIONS).parse(text or "VersionTLS12")
)
IP_ADDRESS: Final = ValueType(
    "IP", _read_as("an IP address", lambda text: str(ipaddress.ip_address(text or ALL_ADDRESSES)))
)
PATHS: Final = ValueType("PATH,…", _paths, joined=True)
CIPHER_SUITES: Final = ValueType("NAME,…", _cipher_suites, joined=True)
"""Names that kube-scheduler takes for `--tls-cipher-suites`."""
ADDRESS: Final = ValueType("[HOST]:PORT", _address)
"""(host, port); the host is empty for all addresses."""
