"""Hypotheses as JSON, as the HTTP API takes them. Every unknown or malformed field is an error that names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from podwright.core.objects.raw import json_type
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, HypothesisError, Scale, parse_scale

Raw = Mapping[str, Any]

_FIELDS: Final = {
    "name": "name",
    "policies": "policies",
    "objects": "objects",
    "addNodes": "add_nodes",
    "removeNodes": "remove_nodes",
    "drain": "drain",
    "scale": "scale",
    "pods": "pods",
    "retryPending": "retry_pending",
}


def hypothesis_of(raw: object, where: str) -> Hypothesis:
    """The hypothesis that the JSON describes. Raises HypothesisError, which names the field."""
    fields = _object(raw, where)
    _check_fields(fields, _FIELDS, where)
    parsers: Mapping[str, Callable[[Any, str], Any]] = {
        "name": _text,
        "policies": _objects,
        "objects": _objects,
        "addNodes": lambda value, at: [_added_nodes(item, at) for item, at in _items(value, at)],
        "removeNodes": _texts,
        "drain": _texts,
        "scale": lambda value, at: [_scale(item, at) for item, at in _items(value, at)],
        "pods": _objects,
        "retryPending": _switch,
    }
    return Hypothesis(**{_FIELDS[key]: parsers[key](value, f"{where}.{key}") for key, value in fields.items()})


def _added_nodes(raw: object, where: str) -> AddedNodes:
    fields = _object(raw, where)
    _check_fields(fields, ("count", "like", "template"), where)
    template = fields.get("template")
    return AddedNodes(
        _whole(fields.get("count", 1), f"{where}.count"),
        _text(fields.get("like", ""), f"{where}.like"),
        None if template is None else _object(template, f"{where}.template"),
    )


def _scale(raw: object, where: str) -> Scale:
    if isinstance(raw, str):
        try:
            return parse_scale(raw)
        except HypothesisError as error:
            raise HypothesisError(f"{where}: {error}") from error
    fields = _object(raw, where)
    _check_fields(fields, ("kind", "namespace", "name", "replicas"), where)
    kind, namespace, name = (_text(fields.get(key, ""), f"{where}.{key}") for key in ("kind", "namespace", "name"))
    replicas = _whole(fields.get("replicas"), f"{where}.replicas")
    try:
        return parse_scale(f"{kind}/{namespace or 'default'}/{name}={replicas}")
    except HypothesisError as error:
        raise HypothesisError(f"{where}: {error}") from error


def _check_fields(fields: Raw, known: Sequence[str] | Mapping[str, str], where: str) -> None:
    for key in fields:
        if key not in known:
            raise HypothesisError(f"{where}.{key}: unknown field; there are {', '.join(known)}")


def _object(raw: object, where: str) -> Raw:
    if not isinstance(raw, Mapping):
        raise HypothesisError(f"{where}: expected an object, got {json_type(raw)}")
    return raw


def _items(raw: object, where: str) -> list[tuple[Any, str]]:
    if not isinstance(raw, list):
        raise HypothesisError(f"{where}: expected a list, got {json_type(raw)}")
    return [(item, f"{where}[{index}]") for index, item in enumerate(raw)]


def _objects(raw: object, where: str) -> list[Raw]:
    return [_object(item, at) for item, at in _items(raw, where)]


def _texts(raw: object, where: str) -> list[str]:
    return [_text(item, at) for item, at in _items(raw, where)]


def _text(raw: object, where: str) -> str:
    if not isinstance(raw, str):
        raise HypothesisError(f"{where}: expected a string, got {json_type(raw)}")
    return raw


def _whole(raw: object, where: str) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool):
        got = raw if isinstance(raw, float) else json_type(raw)
        raise HypothesisError(f"{where}: expected a whole number, got {got}")
    return raw


def _switch(raw: object, where: str) -> bool:
    if not isinstance(raw, bool):
        raise HypothesisError(f"{where}: expected true or false, got {json_type(raw)}")
    return raw
