"""Kubernetes' named formats of texts: `format.dns1123Label().validate(name)`.

Sources: `library/format.go` of `k8s.io/apiserver/pkg/cel`, `util/validation` of `k8s.io/apimachinery`, `strfmt` of
kube-openapi.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.library.signatures import unary
from podwright.core.cel.library.urls import check_request_uri
from podwright.core.cel.values import NONE, Function, Opaque, Optional, Value, no_such_overload
from podwright.core.objects.dataclass import dataclass

Check = Callable[[str], Sequence[str]]
"""Gives the reasons why a text does not have a format."""


@dataclass(frozen=True, eq=False, slots=True)
class Format(Opaque):
    """A named format. `regex_size` counts in the cost of a validation."""

    cel_type = types.FORMAT
    name: str
    check: Check
    regex_size: int

    def equals(self, other: object) -> bool:
        """cel-go compares with formats only."""
        if not isinstance(other, Format):
            raise no_such_overload()
        return self.name == other.name


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_UUID: Final = "^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_TIME: Final = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)


def _rule(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _has(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _size(text: str, most: int, unit: str = "characters") -> Iterator[str]:
    if len(text.encode()) > most:
        yield f"must be no more than {most} {unit}"


def _label(text: str) -> Sequence[str]:
    found = list(_size(text, 63))
    if not _has(_LABEL, text):
        if _has(_SUBDOMAIN, text):
            found.append("must not contain dots")
        else:
            found.append(_rule(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return found


def _subdomain(text: str, unit: str = "characters") -> Sequence[str]:
    found = list(_size(text, 253, unit))
    if not _has(_SUBDOMAIN, text):
        found.append(_rule(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return found


def _label_1035(text: str) -> Sequence[str]:
    found = list(_size(text, 63))
    if not _has(_LABEL_1035, text):
        found.append(_rule(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return found


def _as_prefix(check: Check) -> Check:
    """A prefix of generated names may end with a dash."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _qualified(text: str) -> Sequence[str]:
    found: list[str] = []
    parts = text.split("/")
    examples = ("MyName", "my.name", "123-abc")
    if len(parts) > 2:
        rule = _rule(_KEY_RULE, _KEY, *examples)
        return [f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if len(parts) == 2:
        reasons = _subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        found += (f"prefix part {reason}" for reason in reasons)
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    found += (f"name part {reason}" for reason in _size(name, 63, "bytes"))
    if not _has(_KEY, name):
        found.append(f"name part {_rule(_KEY_RULE, _KEY, *examples)}")
    return found


def _label_value(text: str) -> Sequence[str]:
    found = list(_size(text, 63, "bytes"))
    if not _has(f"({_KEY})?", text):
        found.append(_rule(_VALUE_RULE, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return found


def _uri(text: str) -> Sequence[str]:
    reason = check_request_uri(text)
    return [reason] if reason else ()


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        date(year or 4, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = re.fullmatch(_TIME, parts[1], re.ASCII)
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _unless(has: Callable[[str], bool], reason: str) -> Check:
    return lambda text: () if has(text) else [reason]


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _label_1035, 30),
    "qualifiedName": Format("QualifiedName", _qualified, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _as_prefix(_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _as_prefix(_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _as_prefix(_label_1035), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _unless(lambda t: _has(_UUID, t.lower()), "does not match the UUID format"), len(_UUID) + 4),
    "byte": Format("byte", _unless(lambda text: _has(_BASE64, text), "invalid base64"), 84),
    "date": Format("date", _unless(_is_date, "invalid date"), len(_TIME)),
    "datetime": Format("datetime", _unless(_is_datetime, "invalid datetime"), len(_TIME)),
}
"""The formats by the names that expressions use. Sizes of Go's patterns differ from those here where Go has a flag in
them.
"""


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found else NONE


def _validate(value: Value, text: Value) -> Optional:
    if not isinstance(value, Format) or text.__class__ is not str:
        raise no_such_overload("validate", value, text)
    reasons = value.check(text)
    return Optional(list(reasons)) if reasons else NONE


def _constant(value: Format) -> Function:
    return lambda: value


PLAIN: Final[dict[str, Function]] = {
    "format.named": unary("format.named", str, _named),
    "validate": _validate,
    **{f"format.{name}": _constant(value) for name, value in FORMATS.items()},
}
