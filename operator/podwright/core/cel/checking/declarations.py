"""The functions that Kubernetes adds to CEL's standard library, with the overload ids of cel-go.

Sources: `environment/base.go` and `library` of `k8s.io/apiserver/pkg/cel`, `ext` of cel-go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.types import A, Type, list_of, map_of, optional_of
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True)
class Overload:
    """One signature of a function. The first of `parameters` is the target if `is_method`. `A` among the types stands
    for any.
    """

    function: str
    id: str
    parameters: tuple[Type, ...]
    result: Type
    is_method: bool = False


def _plain(function: str, id_: str, parameters: Sequence[Type], result: Type) -> Overload:
    return Overload(function, id_, tuple(parameters), result)


def _method(function: str, id_: str, parameters: Sequence[Type], result: Type) -> Overload:
    return Overload(function, id_, tuple(parameters), result, is_method=True)


_ORDERED: Final = {
    "bool": types.BOOL,
    "int64": types.INT,
    "uint64": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
}
_NUMBERS: Final = ("int64", "uint64", "double")


def _comparisons() -> Iterable[Overload]:
    """The comparisons of the standard library, and those between numbers of different types, which the library
    lacks.
    """
    for function, name in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        for kind, type_ in _ORDERED.items():
            yield _plain(function, f"{name}_{kind}", (type_, type_), types.BOOL)
        for a in _NUMBERS:
            for b in _NUMBERS:
                if a != b:
                    yield _plain(function, f"{name}_{a}_{b}", (_ORDERED[a], _ORDERED[b]), types.BOOL)


COMPARISONS: Final = tuple(_comparisons())
TO_STRING: Final = (
    *(_plain("string", f"{name}_to_string", [kind], types.STRING) for name, kind in _ORDERED.items()),
    _plain("string", "ip_to_string", [types.IP], types.STRING),
    _plain("string", "cidr_to_string", [types.CIDR], types.STRING),
)
"""`string(x)` of the standard library, with Kubernetes' types."""
TO_DURATION: Final = (
    _plain("duration", "duration_to_duration", [types.DURATION], types.DURATION),
    _plain("duration", "string_to_duration", [types.STRING], types.DURATION),
)
"""`duration(x)` of the standard library, which in C++ takes whole numbers, too."""

_Q: Final = types.QUANTITY
QUANTITY: Final = (
    _plain("quantity", "string_to_quantity", [types.STRING], _Q),
    _plain("isQuantity", "is_quantity_string", [types.STRING], types.BOOL),
    _plain("sign", "quantity_sign", [_Q], types.INT),
    _method("isGreaterThan", "quantity_is_greater_than", [_Q, _Q], types.BOOL),
    _method("isLessThan", "quantity_is_less_than", [_Q, _Q], types.BOOL),
    _method("compareTo", "quantity_compare_to", [_Q, _Q], types.INT),
    _method("asApproximateFloat", "quantity_get_float", [_Q], types.DOUBLE),
    _method("asInteger", "quantity_get_int", [_Q], types.INT),
    _method("isInteger", "quantity_is_integer", [_Q], types.BOOL),
    _method("add", "quantity_add", [_Q, _Q], _Q),
    _method("add", "quantity_add_int", [_Q, types.INT], _Q),
    _method("sub", "quantity_sub", [_Q, _Q], _Q),
    _method("sub", "quantity_sub_int", [_Q, types.INT], _Q),
)

_V: Final = types.SEMVER
SEMVER: Final = (
    _plain("semver", "string_to_semver", [types.STRING], _V),
    _plain("semver", "string_bool_to_semver", [types.STRING, types.BOOL], _V),
    _plain("isSemver", "is_semver_string", [types.STRING], types.BOOL),
    _plain("isSemver", "is_semver_string_bool", [types.STRING, types.BOOL], types.BOOL),
    _method("isGreaterThan", "semver_is_greater_than", [_V, _V], types.BOOL),
    _method("isLessThan", "semver_is_less_than", [_V, _V], types.BOOL),
    _method("compareTo", "semver_compare_to", [_V, _V], types.INT),
    _method("major", "semver_major", [_V], types.INT),
    _method("minor", "semver_minor", [_V], types.INT),
    _method("patch", "semver_patch", [_V], types.INT),
)

_S: Final = types.STRING
REGEX: Final = (
    _method("find", "string_find_string", [_S, _S], _S),
    _method("findAll", "string_find_all_string", [_S, _S], list_of(_S)),
    _method("findAll", "string_find_all_string_int", [_S, _S, types.INT], list_of(_S)),
)

_SUMMED: Final = {"int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "duration": types.DURATION}
_COMPARED: Final = {
    **_SUMMED,
    "bool": types.BOOL,
    "timestamp": types.TIMESTAMP,
    "string": types.STRING,
    "bytes": types.BYTES,
}
LISTS: Final = (
    *(
        _method("isSorted", f"list_{name}_is_sorted_bool", [list_of(kind)], types.BOOL)
        for name, kind in _COMPARED.items()
    ),
    *(_method("sum", f"list_{name}_sum_{name}", [list_of(kind)], kind) for name, kind in _SUMMED.items()),
    *(_method("max", f"list_{name}_max_{name}", [list_of(kind)], kind) for name, kind in _COMPARED.items()),
    *(_method("min", f"list_{name}_min_{name}", [list_of(kind)], kind) for name, kind in _COMPARED.items()),
    _method("indexOf", "list_a_index_of_int", [list_of(A), A], types.INT),
    _method("lastIndexOf", "list_a_last_index_of_int", [list_of(A), A], types.INT),
    _method("includes", "list_includes_dyn_dyn", [types.DYN, types.DYN], types.BOOL),
)

STRINGS: Final = (
    _method("charAt", "string_char_at_int", [_S, types.INT], _S),
    _method("indexOf", "string_index_of_string", [_S, _S], types.INT),
    _method("indexOf", "string_index_of_string_int", [_S, _S, types.INT], types.INT),
    _method("lastIndexOf", "string_last_index_of_string", [_S, _S], types.INT),
    _method("lastIndexOf", "string_last_index_of_string_int", [_S, _S, types.INT], types.INT),
    _method("lowerAscii", "string_lower_ascii", [_S], _S),
    _method("upperAscii", "string_upper_ascii", [_S], _S),
    _method("replace", "string_replace_string_string", [_S, _S, _S], _S),
    _method("replace", "string_replace_string_string_int", [_S, _S, _S, types.INT], _S),
    _method("split", "string_split_string", [_S, _S], list_of(_S)),
    _method("split", "string_split_string_int", [_S, _S, types.INT], list_of(_S)),
    _method("substring", "string_substring_int", [_S, types.INT], _S),
    _method("substring", "string_substring_int_int", [_S, types.INT, types.INT], _S),
    _method("trim", "string_trim", [_S], _S),
    _method("format", "string_format", [_S, list_of(types.DYN)], _S),
    _plain("strings.quote", "strings_quote", [_S], _S),
    _method("join", "list_join", [list_of(_S)], _S),
    _method("join", "list_join_string", [list_of(_S), _S], _S),
)

OPTIONAL: Final = (
    _plain("optional.unwrap", "optional_unwrap", [list_of(optional_of(A))], list_of(A)),
    _method("unwrapOpt", "optional_unwrapOpt", [list_of(optional_of(A))], list_of(A)),
)
"""Functions for optional values that the library lacks."""

_IP: Final = types.IP
_CIDR: Final = types.CIDR
ADDRESSES: Final = (
    _plain("ip", "string_to_ip", [_S], _IP),
    _method("ip", "cidr_ip", [_CIDR], _IP),
    _plain("isIP", "is_ip", [_S], types.BOOL),
    _plain("ip.isCanonical", "ip_is_canonical", [_S], types.BOOL),
    _method("family", "ip_family", [_IP], types.INT),
    _method("isUnspecified", "ip_is_unspecified", [_IP], types.BOOL),
    _method("isLoopback", "ip_is_loopback", [_IP], types.BOOL),
    _method("isLinkLocalMulticast", "ip_is_link_local_multicast", [_IP], types.BOOL),
    _method("isLinkLocalUnicast", "ip_is_link_local_unicast", [_IP], types.BOOL),
    _method("isGlobalUnicast", "ip_is_global_unicast", [_IP], types.BOOL),
    _plain("cidr", "string_to_cidr", [_S], _CIDR),
    _plain("isCIDR", "is_cidr", [_S], types.BOOL),
    _method("prefixLength", "cidr_prefix_length", [_CIDR], types.INT),
    _method("masked", "cidr_masked", [_CIDR], _CIDR),
    _method("containsIP", "cidr_contains_ip_string", [_CIDR, _S], types.BOOL),
    _method("containsIP", "cidr_contains_ip_ip", [_CIDR, _IP], types.BOOL),
    _method("containsCIDR", "cidr_contains_cidr_string", [_CIDR, _S], types.BOOL),
    _method("containsCIDR", "cidr_contains_cidr", [_CIDR, _CIDR], types.BOOL),
)

_U: Final = types.URL
_F: Final = types.FORMAT
_FORMAT_NAMES: Final = (
    *(
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
    ),
    *("dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)
TEXTS: Final = (
    _plain("url", "string_to_url", [_S], _U),
    _plain("isURL", "is_url_string", [_S], types.BOOL),
    _method("getScheme", "url_get_scheme", [_U], _S),
    _method("getHost", "url_get_host", [_U], _S),
    _method("getHostname", "url_get_hostname", [_U], _S),
    _method("getPort", "url_get_port", [_U], _S),
    _method("getEscapedPath", "url_get_escaped_path", [_U], _S),
    _method("getQuery", "url_get_query", [_U], map_of(_S, list_of(_S))),
    _plain("format.named", "format-named", [_S], optional_of(_F)),
    _method("validate", "format-validate", [_F, _S], optional_of(list_of(_S))),
    *(_plain(f"format.{name}", f"format.{name}", [], _F) for name in _FORMAT_NAMES),
)
"""URLs, and the named formats of texts."""

_SORTED: Final = {kind.name: kind for kind in _COMPARED.values()}
LIST_EXTENSION: Final = (
    _method("slice", "list_slice", [list_of(A), types.INT, types.INT], list_of(A)),
    _method("flatten", "list_flatten", [list_of(list_of(A))], list_of(A)),
    _method("flatten", "list_flatten_int", [list_of(types.DYN), types.INT], list_of(types.DYN)),
    _plain("lists.range", "lists_range", [types.INT], list_of(types.INT)),
    _method("reverse", "list_reverse", [list_of(A)], list_of(A)),
    _method("distinct", "list_distinct", [list_of(A)], list_of(A)),
    *(_method("sort", f"list_{name}_sort", [list_of(kind)], list_of(kind)) for name, kind in _SORTED.items()),
)
"""cel-go's extension of list functions but for `sortBy`, a macro, for which the library's own extension is needed."""
