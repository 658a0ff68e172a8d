"""Generates policies that the API server accepts: from the schemas of the CRDs, with every field at its limits, and
with generated expressions.
"""

from __future__ import annotations

import random
from typing import Any

from podwright.api.crd import crd
from podwright.core.plugins import PLUGINS
from support.cel.generator import Generator as CelGenerator
from support.rules.expressions import Expressions

HOSTILE = (
    "{[1]: 1}.size() == 1",
    "{{}: 1}.size() == 1",
    "{dyn([1]): 1}.size() == 1",
    "{node: 1}.size() == 1",
    "{node.labels: node.taints}[node.labels].size() >= 0",
    "{[node.name]: 1, [pod.name]: 2}.exists(k, k[0] == node.name)",
    "node.labels in {node.labels: 1}",
    "quantity('1e400').asApproximateFloat() > 1.0",
    "quantity('1e400').add(quantity('1')).asApproximateFloat() > 1.0",
    "int(quantity('1e400').asApproximateFloat()) > 1",
    "node.name.findAll('\\\\C', 2).size() > 0",
    "[].sort().size() == 0",
    "duration(node.podCount) > duration('1s')",
    "1e400 > 1.0",
    "google.protobuf.Timestamp{seconds: 1} > timestamp(0)",
    "timestamp(node.podCount).getHours('Local') >= 0",
    "'%s'.format([{[1]: node.name}]) == ''",
    "node.free[?'cpu'].orValue(0) / 0 > 1",
    "9223372036854775807 + node.podCount > 0",
    "podsOnNode(node.name + '=') > 0",
)
TEXTS = ("", "x", "gold", "a" * 60, "ünï", "\u202e", "\x00\n", "🦊", "{}", "%s", "null", "-1", "1e9")
NAMES = ("a", "gold", "zone", "kubernetes.io/hostname", "cpu", "memory", "nvidia.com/gpu")


class Policies:
    """Specs of policies of one kind. The same seed makes the same ones."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random = random.Random(seed)
        self._rules = Expressions(self._random)
        self._cel = CelGenerator(seed)
        (version,) = crd(kind)["spec"]["versions"]
        self._schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def spec(self) -> dict[str, Any]:
        """A spec whose pods are those of this scheduler, so that some decision uses it."""
        found: dict[str, Any] = self._value(self._schema, "spec")
        if self._random.random() < 0.5:  # one that is likely to be accepted
            found = {name: value for name, value in found.items() if name in ("rules", "params", "precedence")}
        found.pop("mode", None)
        return {**found, "schedulerName": "podwright", "match": {}, "byName": "Never"}

    def _value(self, schema: dict[str, Any], field: str) -> Any:
        chosen = self._random
        if "enum" in schema:
            return chosen.choice(schema["enum"])
        match schema.get("type"):
            case "object" if "properties" in schema:
                needed = schema.get("required", ())
                return {
                    name: self._value(each, name)
                    for name, each in schema["properties"].items()
                    if name in needed or chosen.random() < 0.4
                }
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                return {chosen.choice(NAMES): self._value(schema["additionalProperties"], field) for _ in range(2)}
            case "object":
                return chosen.choice(({}, {"x": {"y": [1, None, "z"]}}, {"scoringStrategy": {"type": "MostAllocated"}}))
            case "array":
                least = schema.get("minItems", 0)
                found = [self._value(schema["items"], field) for _ in range(max(least, chosen.choice((0, 1, 2, 3))))]
                return list({(each.get("name", i) if isinstance(each, dict) else each): each
                             for i, each in enumerate(found)}.values())  # fmt: skip
            case "integer":
                return chosen.choice((schema.get("minimum", 0), 1, schema.get("maximum", 2**31 - 1)))
            case "boolean":
                return chosen.random() < 0.5
        return self._text(field, schema)

    def _text(self, field: str, schema: dict[str, Any]) -> str:
        if field == "expression":
            return self._random.choice((self._rules.bool(3), self._rules.any(), self._cel.expression(), *HOSTILE[:3]))
        if field == "name" and self._random.random() < 0.5:
            return self._random.choice(sorted(PLUGINS))
        known = NAMES if "pattern" in schema else TEXTS
        return self._random.choice([each for each in known if len(each) >= schema.get("minLength", 0)])


def ruled(expression: str) -> dict[str, Any]:
    """A spec with one filter."""
    return {"rules": {"filters": [{"name": "f", "expression": expression, "message": "no"}]}}
