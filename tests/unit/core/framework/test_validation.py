"""Rules that are written once: the operator checks them, and the schema has them for the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from podwright.core.framework.args import ArgsError, decode, json_schema_of
from podwright.core.framework.validation import Rule, describe, unique_by


@dataclass(frozen=True, slots=True)
class Range:
    name: str = field(metadata=describe("Its name."))
    low: int = field(default=0, metadata=describe("From here.", minimum=0))
    high: int = field(default=9, metadata=describe("To here.", maximum=9))

    RULES = (
        Rule(
            cel="self.low <= self.high",
            holds=lambda self: self.low <= self.high,
            message="{self.low} is above {self.high}",
            fallback="low is above high",
            path=".low",
            reason="FieldValueInvalid",
        ),
        Rule(holds=lambda self: self.name != "all", message="the name all is reserved", path=".name"),
    )


@dataclass(frozen=True, slots=True)
class Ranges:
    ranges: tuple[Range, ...] = field(
        default=(),
        metadata=describe(
            "Ranges in order.",
            rules=[
                Rule(
                    cel="self.map(r, r.low).isSorted()",
                    violations=lambda self: (
                        f"[{i}].low" for i in range(1, len(self)) if self[i].low < self[i - 1].low
                    ),
                    message="low must not fall",
                )
            ],
            **unique_by("name"),
        ),
    )
    by_point: Mapping[str, Range] = field(
        default_factory=dict, metadata=describe("Ranges by point.", keys={"first": "The first.", "last": "The last."})
    )


def problems(raw):
    with pytest.raises(ArgsError) as caught:
        decode(Ranges, raw, "spec")
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            {"ranges": [{"name": "a", "low": 5, "high": 4}]},
            [("spec.ranges[0].low", "5 is above 4")],
            id="a rule of a dataclass names values",
        ),
        pytest.param(
            {"ranges": [{"name": "all"}]},
            [("spec.ranges[0].name", "the name all is reserved")],
            id="a rule without CEL is checked",
        ),
        pytest.param(
            {"ranges": [{"name": "a", "low": 2}, {"name": "b", "low": 1}]},
            [("spec.ranges[1].low", "low must not fall")],
            id="a rule of a field names the entry that breaks it",
        ),
        pytest.param(
            {"byPoint": {"first": {"name": "a", "low": 5, "high": 4}}},
            [("spec.byPoint.first.low", "5 is above 4")],
            id="rules hold inside mappings",
        ),
        pytest.param(
            {"ranges": [{"name": "a"}, {"name": "a"}]},
            [("spec.ranges[1].name", "'a' is listed twice")],
            id="names are unique",
        ),
        pytest.param(
            {"ranges": [{"name": "a", "low": -1, "high": -2}]},
            [("spec.ranges[0].low", "-1 is less than 0")],
            id="rules are checked only if all fields are within their bounds",
        ),
    ],
)
def test_broken_rules_are_reported_with_their_path(raw, expected):
    assert problems(raw) == expected


def test_the_schema_has_the_rules_that_have_cel():
    properties = json_schema_of(Ranges)["properties"]
    ranges = properties["ranges"]
    assert ranges["x-kubernetes-validations"] == [
        {"rule": "self.map(r, r.low).isSorted()", "message": "low must not fall"}
    ]
    assert ranges["items"]["x-kubernetes-validations"] == [
        {
            "rule": "self.low <= self.high",
            "messageExpression": "self.low + ' is above ' + self.high",
            "message": "low is above high",
            "fieldPath": ".low",
            "reason": "FieldValueInvalid",
        }
    ]
    assert ranges["x-kubernetes-list-map-keys"] == ["name"]


def test_the_schema_of_a_mapping_with_known_keys_describes_each_key():
    by_point = json_schema_of(Ranges)["properties"]["byPoint"]
    assert "additionalProperties" not in by_point
    assert {key: schema["description"] for key, schema in by_point["properties"].items()} == {
        "first": "The first.",
        "last": "The last.",
    }


@pytest.mark.parametrize(
    "twins",
    [
        pytest.param({}, id="neither"),
        pytest.param({"holds": bool, "violations": tuple}, id="both"),
    ],
)
def test_a_rule_has_exactly_one_python_twin(twins):
    with pytest.raises(TypeError, match="needs either holds or violations"):
        Rule(message="x", **twins)
