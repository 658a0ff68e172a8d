"""CustomResourceDefinitions: the kinds that they register, and how their schemas apply to objects.

A version's `openAPIV3Schema` prunes unknown fields, sets defaults and rejects invalid values, in this order, with the
API server's messages. `x-kubernetes-validations` (CEL) are not evaluated.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import orjson

from podwright.sandbox.errors import invalid
from podwright.sandbox.kinds import Kind, Obj

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
JSON_SCHEMA_KEYS = (
    "enum maximum minimum exclusiveMaximum exclusiveMinimum multipleOf pattern maxLength minLength maxItems minItems"
    " uniqueItems maxProperties minProperties required"
)
LIMIT_MESSAGES = {
    "minimum": "greater than or equal to {}",
    "maximum": "less than or equal to {}",
    "pattern": "matching '{}'",
}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


class Schema:
    """The compiled schema of one version."""

    def __init__(self, schema: Obj) -> None:
        self._schema = schema
        self._validator = jsonschema.Draft4Validator(_to_json_schema(schema))

    def prune(self, obj: Obj) -> list[str]:
        """Drops the fields that are not in the schema, in place, and returns their paths."""
        return list(_prune(obj, self._schema | {"x-kubernetes-embedded-resource": True}, ""))

    def default(self, obj: Obj) -> None:
        _default(obj, self._schema)

    def problems(self, obj: Obj) -> list[tuple[str, str]]:
        """A (field path, message) pair for each invalid field."""
        return sorted({_problem(error) for error in self._validator.iter_errors(obj)})


def accept(kind: Kind, obj: Obj) -> Obj:
    """The CRD in stored form: checked, with complete names, and established. Raises ApiError 422."""
    spec = {"conversion": {"strategy": "None"}, **(obj.get("spec") or {})}
    names = spec.get("names") or {}
    name = obj["metadata"]["name"]
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if not names.get("plural") or not names.get("kind"):
        raise invalid(kind, name, ("spec.names.plural", "Required value"), ("spec.names.kind", "Required value"))
    if name != wanted:
        problem = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group, that is "{wanted}"'
        raise invalid(kind, name, ("metadata.name", problem))
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    if len(stored) != 1:
        raise invalid(kind, name, ("spec.versions", "Invalid value: must have exactly one version marked as storage"))
    names = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"} | names
    since = {"status": "True", "lastTransitionTime": obj["metadata"]["creationTimestamp"], "message": ""}
    reasons = (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    conditions = [{"type": condition, "reason": reason, **since} for condition, reason in reasons]
    status = {"acceptedNames": names, "conditions": conditions, "storedVersions": stored}
    return obj | {"spec": spec | {"names": names}, "status": status}


def kinds_of(crd: Obj) -> Iterator[Kind]:
    """The kinds of a CRD's served versions, the storage version first."""
    spec, names = crd["spec"], crd["spec"]["names"]
    namespaced = spec.get("scope") == "Namespaced"
    shorts, categories = tuple(names.get("shortNames") or ()), tuple(names.get("categories") or ())
    for version in sorted(spec["versions"], key=lambda version: not version.get("storage")):
        if version.get("served"):
            schema = Schema((version.get("schema") or {}).get("openAPIV3Schema") or {PRESERVE: True})
            subresources = frozenset({"status"} & set(version.get("subresources") or ()))
            served = Kind(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=namespaced,
                short_names=shorts,
                subresources=subresources,
            )
            yield replace(served, generation=True, categories=categories, crd=version, schema=schema)


def _to_json_schema(schema: Obj) -> Obj:
    out: Obj = {key: schema[key] for key in JSON_SCHEMA_KEYS.split() if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    elif "type" in schema:
        out["type"] = [schema["type"]]
    if schema.get("nullable"):
        out["type"] = [*out.get("type", []), "null"]
        out |= {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    if schema.get("x-kubernetes-list-type") == "set":
        out["uniqueItems"] = True
    out |= {
        key: [_to_json_schema(part) for part in schema[key]] for key in ("allOf", "anyOf", "oneOf") if key in schema
    }
    for key in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = _to_json_schema(schema[key])
    out["properties"] = {name: _to_json_schema(part) for name, part in (schema.get("properties") or {}).items()}
    return out


def _parts(value: Any, schema: Obj) -> Iterator[tuple[Any, str, Obj]]:
    """(child, path step, schema) for each child that the schema describes."""
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, child in value.items():
            if isinstance(part := properties.get(key, others), dict):
                yield child, f".{key}", part
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, child in enumerate(value):
            yield child, f"[{index}]", schema["items"]


def _prune(value: Any, schema: Obj, path: str) -> Iterator[str]:
    if isinstance(value, dict) and not schema.get(PRESERVE) and not schema.get("additionalProperties"):
        known = {*(schema.get("properties") or ())}
        if schema.get("x-kubernetes-embedded-resource"):
            known |= {"apiVersion", "kind", "metadata"}
        for key in value.keys() - known:
            del value[key]
            yield f"{path}.{key}".lstrip(".")
    for child, step, part in _parts(value, schema):
        if path or step != ".metadata":
            yield from _prune(child, part, path + step)


def _default(value: Any, schema: Obj) -> None:
    if isinstance(value, dict):
        for key, part in (schema.get("properties") or {}).items():
            if "default" in part and value.get(key) is None and not (key in value and part.get("nullable")):
                value[key] = orjson.loads(orjson.dumps(part["default"]))
    for child, _, part in _parts(value, schema):
        _default(child, part)


def _problem(error: jsonschema.ValidationError) -> tuple[str, str]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path).lstrip(".")
    shown, rule, name = orjson.dumps(error.instance).decode(), error.validator_value, str(error.validator)
    if name == "required":
        return f"{path}.{error.message.split(chr(39))[1]}".lstrip("."), "Required value"
    if name == "enum" and isinstance(rule, list):
        return (
            path,
            f"Unsupported value: {shown}: supported values: {orjson.dumps(rule).decode()[1:-1].replace(',', ', ')}",
        )
    if name == "type" and isinstance(rule, list):
        actual = JSON_TYPES.get(type(error.instance), "null")
        return path, f'Invalid value: "{actual}": {path} in body must be of type {",".join(rule)}: "{actual}"'
    message = f"should be {LIMIT_MESSAGES[name].format(rule)}" if name in LIMIT_MESSAGES else error.message
    return path, f"Invalid value: {shown}: {path} in body {message}"
