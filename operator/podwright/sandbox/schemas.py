"""CustomResourceDefinitions: the kinds that they register, and what their schemas do to an object.

A version's `openAPIV3Schema` prunes unknown fields, fills in defaults and rejects what is wrong, in this order, with
messages worded as the API server words them. `x-kubernetes-validations` (CEL) are not evaluated.
"""

from collections.abc import Iterator
from typing import Any

import jsonschema
import orjson

from podwright.sandbox.errors import invalid
from podwright.sandbox.kinds import Kind, Obj

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_KEPT = (
    *("enum", "format", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "pattern"),
    *("maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required"),
)
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class Schema:
    """One version's compiled schema."""

    def __init__(self, schema: Obj) -> None:
        self._schema = schema
        self._validator = jsonschema.Draft4Validator(_to_json_schema(schema))

    def prune(self, obj: Obj) -> list[str]:
        """Drop the fields that the schema does not know, in place; returns their paths."""
        root = self._schema | {"x-kubernetes-embedded-resource": True}
        return list(_prune(obj, root, ""))

    def default(self, obj: Obj) -> None:
        _default(obj, self._schema)

    def problems(self, obj: Obj) -> list[tuple[str, str]]:
        """(field path, message) of all that is wrong."""
        return sorted({_problem(error) for error in self._validator.iter_errors(obj)})


def accept(kind: Kind, obj: Obj) -> Obj:
    """A CRD as it is stored: checked, names completed, established."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    name = obj["metadata"]["name"]
    for path, value in (("spec.group", spec.get("group")), ("spec.names.plural", names.get("plural"))):
        if not value:
            raise invalid(kind, name, (path, "Required value"))
    if name != f"{names['plural']}.{spec['group']}":
        wanted = f"{names['plural']}.{spec['group']}"
        problem = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group, that is "{wanted}"'
        raise invalid(kind, name, ("metadata.name", problem))
    if sum(bool(version.get("storage")) for version in spec.get("versions") or ()) != 1:
        raise invalid(kind, name, ("spec.versions", "Invalid value: must have exactly one version marked as storage"))
    names = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"} | names
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    time = obj["metadata"].get("creationTimestamp")
    established = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "established"},
    ]
    return obj | {
        "spec": {"conversion": {"strategy": "None"}, **spec, "names": names},
        "status": {
            "acceptedNames": names,
            "conditions": [condition | {"lastTransitionTime": time} for condition in established],
            "storedVersions": stored,
        },
    }


def kinds_of(crd: Obj) -> Iterator[Kind]:
    """The served versions of a CRD as kinds, the storage version first."""
    spec = crd["spec"]
    names = spec["names"]
    for version in sorted(spec["versions"], key=lambda version: not version.get("storage")):
        if not version.get("served", True):
            continue
        yield Kind(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec.get("scope") == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            subresources=frozenset(set(version.get("subresources") or ()) & {"status"}),
            generation=True,
            categories=tuple(names.get("categories") or ()),
            singular=names["singular"],
            list_kind=names["listKind"],
            crd=version,
            schema=Schema((version.get("schema") or {}).get("openAPIV3Schema") or {_PRESERVE: True}),
        )


def _to_json_schema(schema: Obj) -> Obj:
    out: Obj = {key: schema[key] for key in _KEPT if key in schema and key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    elif "type" in schema:
        out["type"] = [schema["type"]]
    if schema.get("nullable"):
        out["type"] = [*out.get("type", []), "null"]
        out |= {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    if schema.get("x-kubernetes-list-type") == "set":
        out["uniqueItems"] = True
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            out[key] = [_to_json_schema(part) for part in schema[key]]
    for key in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = _to_json_schema(schema[key])
    if "properties" in schema:
        out["properties"] = {name: _to_json_schema(part) for name, part in schema["properties"].items()}
    return out


def _parts(value: Any, schema: Obj) -> Iterator[tuple[Any, Any, str, Obj]]:
    """(container, key, path step, schema) of each child that the schema describes."""
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for key in list(value):
            if (part := properties.get(key, others)) and isinstance(part, dict):
                yield value, key, f".{key}", part
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index in range(len(value)):
            yield value, index, f"[{index}]", schema["items"]


def _prune(value: Any, schema: Obj, path: str) -> Iterator[str]:
    if isinstance(value, dict) and not schema.get(_PRESERVE) and not schema.get("additionalProperties"):
        known = set(schema.get("properties") or ())
        if schema.get("x-kubernetes-embedded-resource"):
            known |= {"apiVersion", "kind", "metadata"}
        for key in [key for key in value if key not in known]:
            del value[key]
            yield f"{path}.{key}".lstrip(".")
    for container, key, step, part in _parts(value, schema):
        if path or key != "metadata":
            yield from _prune(container[key], part, path + step)


def _default(value: Any, schema: Obj) -> None:
    if isinstance(value, dict):
        for key, part in (schema.get("properties") or {}).items():
            if "default" in part and value.get(key) is None and not (key in value and part.get("nullable")):
                value[key] = orjson.loads(orjson.dumps(part["default"]))
    for container, key, _, part in _parts(value, schema):
        _default(container[key], part)


def _problem(error: jsonschema.ValidationError) -> tuple[str, str]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path).lstrip(".")
    shown = orjson.dumps(error.instance).decode()
    rule: Any = error.validator_value
    if error.validator == "required":
        return f"{path}.{error.message.split(chr(39))[1]}".lstrip("."), "Required value"
    if error.validator == "enum":
        values = ", ".join(orjson.dumps(value).decode() for value in rule)
        return path, f"Unsupported value: {shown}: supported values: {values}"
    if error.validator == "type":
        names = ",".join(rule)
        found = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
        actual = found.get(type(error.instance), "null")
        return path or "<nil>", f'Invalid value: "{actual}": {path} in body must be of type {names}: "{actual}"'
    return path, f"Invalid value: {shown}: {path} in body is wrong: {error.message}"
