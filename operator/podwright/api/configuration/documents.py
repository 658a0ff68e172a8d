"""Reads a configuration file strictly: one YAML or JSON object, every key once, of bounded size.

Values are those of JSON: what YAML reads as a date stays a string, and keys that are not strings become strings. Source:
kube-scheduler decodes with sigs.k8s.io/yaml in strict mode.
"""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from podwright.core.framework.profile import ProfileError
from podwright.core.framework.validation import child_path

MAX_BYTES: Final = 1 << 20
"""The longest file: as much as a ConfigMap holds."""
MAX_VALUES: Final = 100_000
"""The most values in a file. Those of aliases count at each use."""
MAX_DEPTH: Final = 50


class _StrictLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]  # which of the two, only the installation knows
    """YAML 1.1 without dates, with string keys, and with an error for a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        names = [_text_of_key(self.construct_object(key, deep=True)) for key in own]
        if len(set(names)) < len(names):
            name, key = next((n, key) for i, (n, key) in enumerate(zip(names, own, strict=True)) if n in names[:i])
            raise ProfileError("", f"line {key.start_mark.line + 1}: key {name!r} is given twice")
        self.flatten_mapping(node)
        return {
            _text_of_key(self.construct_object(key, deep=deep)): self.construct_object(value, deep=deep)
            for key, value in node.value
        }


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_document(content: bytes) -> dict[str, Any]:
    """The file's first document. Raises ProfileError for anything but an object."""
    if len(content) > MAX_BYTES:
        raise ProfileError("", f"the file is larger than {MAX_BYTES} bytes")
    try:
        _check_depth(content)
        loader = _StrictLoader(content)
        try:
            found = loader.get_data() if loader.check_data() else None
        finally:
            loader.dispose()
    except ProfileError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError("", f"the file is not valid YAML: {_in_one_line(error)}") from error
    if not isinstance(found, dict):
        raise ProfileError("", "expected an object with apiVersion and kind")
    plain = _Plain(is_json=content.lstrip().startswith(b"{"))
    return {key: plain.of(value, key, 1) for key, value in found.items()}


def _check_depth(content: bytes) -> None:
    """Raises ProfileError for a document that is nested too deeply: libyaml would end the process. Its events need no recursion."""
    depth = 0
    for event in yaml.parse(content, Loader=_StrictLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = "" if event.start_mark is None else f"line {event.start_mark.line + 1}: "
            raise ProfileError("", f"{line}the file is nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.DocumentEndEvent):
            return


class _Plain:
    """Values as JSON has them. In YAML, 16.0 is the whole number 16, as in the JSON that Go makes of it; in JSON it is not."""

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
