"""Reads a configuration file strictly: one YAML or JSON object, every key once, of bounded size.

Values are those of JSON: what YAML reads as a date stays a string, and keys that are not strings become strings.
Source: kube-scheduler decodes with sigs.k8s.io/yaml in strict mode.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any, Final

import orjson
import yaml

from podwright.core.framework.profile import ProfileError
from podwright.core.framework.validation import child_path

MAX_BYTES: Final = 1 << 20
"""The longest file: as much as a ConfigMap holds."""
MAX_VALUES: Final = 100_000
"""The most values in a file. Those of aliases count at each use."""
MAX_DEPTH: Final = 50


_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT: Final = "tag:yaml.org,2002:str"
_NUMBERS: Final = {int: "tag:yaml.org,2002:int", float: "tag:yaml.org,2002:float"}
_CONSTANTS: Final = {
    text: value
    for words, value in (("y yes true on", True), ("n no false off", False), ("null", None))
    for word in words.split()
    for text in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
"""Booleans and null by their unquoted texts."""
_TAGS: Final = {value: f"tag:yaml.org,2002:{'null' if value is None else 'bool'}" for value in (True, False, None)}
_WHOLE: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)\Z")
_DECIMAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")


def _number(text: str) -> int | float | None:
    """The number that the unquoted text stands for; None if it stands for no number."""
    plain = text.replace("_", "") if text[:1] in "+-.0123456789" else ""
    if _WHOLE.match(plain):
        is_octal = re.match(r"[-+]?0[0-7]", plain)
        return int(plain, 8 if is_octal else 0)
    if _DECIMAL.match(plain):
        return float(plain)
    return float(plain.replace(".", "")) if _NOT_FINITE.match(text) else None


class _GoValues:
    """Reads words without quotes as Go's library does: no dates, no base 60, and `y` and `n` are booleans."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[misc]  # of the loader or dumper
        if value in _CONSTANTS:
            return _TAGS[_CONSTANTS[value]]
        if value == "<<":
            return _MERGE
        number = _number(value)
        return _TEXT if number is None else _NUMBERS[type(number)]


_Dumper: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class Dumper(_GoValues, _Dumper):  # type: ignore[misc]  # only the installation knows which class it is
    """Writes YAML that kubectl, the kubelet and kube-scheduler read as the same values, and other readers of YAML 1.1,
    too.
    """

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if tag != _TEXT:
            return tag
        return yaml.resolver.Resolver.resolve(self, kind, value, implicit)  # type: ignore[no-untyped-call]  # untyped


class _StrictLoader(_GoValues, _Loader):  # type: ignore[misc]  # as for the dumper
    """With string keys, and an error for a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = _text_of_key(self.construct_object(key, deep=True))
            if name in found:
                raise ProfileError("", f"line {key.start_mark.line + 1}: key {name!r} is given twice")
            found[name] = self.construct_object(value, deep=deep)
        return found


def _construct_constant(_loader: _StrictLoader, node: yaml.ScalarNode) -> bool | None:
    if node.value not in _CONSTANTS:
        raise yaml.constructor.ConstructorError(None, None, f"{node.value!r} has another tag", node.start_mark)
    return _CONSTANTS[node.value]


def _construct_number(_loader: _StrictLoader, node: yaml.ScalarNode) -> int | float:
    number = _number(node.value)
    if number is None:
        raise yaml.constructor.ConstructorError(None, None, f"{node.value!r} is not a number", node.start_mark)
    return number


def _construct_binary(_loader: _StrictLoader, node: yaml.ScalarNode) -> str:
    return base64.b64decode(node.value.replace("\n", ""), validate=True).decode("utf-8", "replace")


for _tags, _construct in (
    (("null", "bool"), _construct_constant),
    (("int", "float"), _construct_number),
    (("binary",), _construct_binary),
    (("merge", "timestamp"), yaml.SafeLoader.construct_yaml_str),
):
    for _tag in _tags:
        _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct)


def read_document(content: bytes) -> dict[str, Any]:
    """The file's first document. Raises ProfileError for anything but an object."""
    if len(content) > MAX_BYTES:
        raise ProfileError("", f"the file is larger than {MAX_BYTES} bytes")
    is_json = content.lstrip().startswith(b"{")
    try:
        found = _json(content) if is_json else _yaml(content)
    except ProfileError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(
            "", f"the file is not valid {'JSON' if is_json else 'YAML'}: {_in_one_line(error)}"
        ) from error
    if not isinstance(found, dict):
        raise ProfileError("", "expected an object with apiVersion and kind")
    plain = _Plain(is_json=is_json)
    return {key: plain.of(value, key, 1) for key, value in found.items()}


def _json(content: bytes) -> Any:
    """A file that begins with a brace is read as JSON only."""
    orjson.loads(content)  # refuses what `json` takes: NaN, and halves of characters
    return json.loads(content, object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ProfileError("", f"key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _yaml(content: bytes) -> Any:
    _check_depth(content)
    loader = _StrictLoader(content)
    try:
        return loader.get_data() if loader.check_data() else None
    finally:
        loader.dispose()


def _check_depth(content: bytes) -> None:
    """Raises ProfileError for a document that is nested too deeply: libyaml would end the process. Its events need no
    recursion.
    """
    depth = 0
    for event in yaml.parse(content, Loader=_StrictLoader):
        if isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 1)):
            raise ProfileError("", "the file is not valid YAML: only version 1.1 is possible")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = "" if event.start_mark is None else f"line {event.start_mark.line + 1}: "
            raise ProfileError("", f"{line}the file is nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.DocumentEndEvent):
            return


class _Plain:
    """Values as JSON has them. In YAML, 16.0 is the whole number 16, as in the JSON that Go makes of it; in JSON it is
    not.
    """

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._left = MAX_VALUES

    def of(self, value: Any, where: str, depth: int) -> Any:
        """Raises ProfileError for values that JSON does not have, and beyond the bounds."""
        self._left -= 1
        if self._left < 0:
            raise ProfileError(where, f"the file has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise ProfileError(where, f"the file is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            return {key: self.of(item, child_path(where, key), depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return int(value) if not self._is_json and value.is_integer() and abs(value) < 2**63 else value
        raise ProfileError(where, f"a value of type {type(value).__name__} is not possible here")


def _text_of_key(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if not isinstance(key, str | int | float):
        raise ProfileError("", f"a key of type {type(key).__name__} is not possible")
    return str(key)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
