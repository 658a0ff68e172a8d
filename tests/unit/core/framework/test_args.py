"""Decoding of plugin args, and their schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from podwright.core.framework.args import ArgsError, decode, decode_args, encode, json_schema_of


@dataclass(frozen=True)
class Resource:
    name: str
    weight: int = field(default=1, metadata={"schema": {"minimum": 1, "maximum": 100}})


@dataclass(frozen=True)
class Strategy:
    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: tuple[Resource, ...] = (Resource("cpu"), Resource("memory"))


@dataclass(frozen=True)
class SampleArgs:
    scoring_strategy: Strategy = Strategy()
    timeout_seconds: int | None = None
    ratio: float = 0.5
    eager: bool = False
    favorite_color: str = field(default="", metadata={"name": "favorite_color", "description": "What it likes."})
    groups: tuple[str, ...] = field(
        default=(), metadata={"schema": {"maxItems": 2, "items": {"maxLength": 5, "pattern": "^[a-z]*$"}}}
    )
    affinity: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        if self.eager and self.timeout_seconds:
            yield f"{where}.timeoutSeconds", "is no use with eager"


WHERE = "pluginConfig[2].args"


def test_missing_args_give_the_defaults():
    assert decode_args(SampleArgs, None, WHERE) == SampleArgs()
    assert decode_args(SampleArgs, {}, WHERE) == SampleArgs()


def test_every_type_of_field_is_decoded():
    raw = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "SampleArgs",
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}]},
        "timeoutSeconds": 3,
        "ratio": 1,
        "eager": False,
        "favorite_color": "teal",
        "groups": ["a", "b"],
        "affinity": {"anything": [1, {"goes": None}]},
        "limits": {"cpu": 4},
    }
    assert decode_args(SampleArgs, raw, WHERE) == SampleArgs(
        scoring_strategy=Strategy("MostAllocated", (Resource("nvidia.com/gpu", 5),)),
        timeout_seconds=3,
        ratio=1,
        favorite_color="teal",
        groups=("a", "b"),
        affinity={"anything": [1, {"goes": None}]},
        limits={"cpu": 4},
    )


def test_a_null_counts_as_not_given():
    raw = {"scoringStrategy": None, "eager": None, "groups": None, "kind": None}
    assert decode_args(SampleArgs, raw, WHERE) == SampleArgs()


def test_the_expected_kind_can_differ_from_the_name_of_the_dataclass():
    assert decode_args(SampleArgs, {"kind": "FancyArgs"}, WHERE, kind="FancyArgs") == SampleArgs()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param([], "pluginConfig[2].args: expected an object, got a list", id="args that are a list"),
        pytest.param({"kind": "NodeNameArgs"}, "pluginConfig[2].args.kind: 'NodeNameArgs' should be 'SampleArgs'", id="the args of another plugin"),
        pytest.param(
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
            "pluginConfig[2].args.apiVersion: 'kubescheduler.config.k8s.io/v1beta3' should be 'kubescheduler.config.k8s.io/v1'",
            id="an API version that no longer exists",
        ),
        pytest.param({"eagre": True}, "pluginConfig[2].args.eagre: unknown field; there are scoringStrategy, timeoutSeconds", id="a misspelt field"),
        pytest.param({"favoriteColor": "teal"}, "pluginConfig[2].args.favoriteColor: unknown field", id="the camel case key of a field with another name"),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}]}},
            "pluginConfig[2].args.scoringStrategy.resources[0].weight: 0 is less than 1",
            id="a nested number below the minimum",
        ),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "pluginConfig[2].args.scoringStrategy.resources[0].weight: 101 is greater than 100",
            id="a number above the maximum",
        ),
        pytest.param(
            {"scoringStrategy": {"resources": [{"weight": 1}]}},
            "pluginConfig[2].args.scoringStrategy.resources[0].name: a value is required",
            id="a field without a default that is missing",
        ),
        pytest.param(
            {"scoringStrategy": {"type": "Best"}},
            "pluginConfig[2].args.scoringStrategy.type: 'Best' is not one of LeastAllocated, MostAllocated",
            id="a value that is not one of the literals",
        ),
        pytest.param({"timeoutSeconds": "3"}, "pluginConfig[2].args.timeoutSeconds: expected a whole number, got string '3'", id="a string for a number"),
        pytest.param({"timeoutSeconds": True}, "pluginConfig[2].args.timeoutSeconds: expected a whole number, got true or false", id="a boolean for a number"),
        pytest.param({"timeoutSeconds": 2**63}, "pluginConfig[2].args.timeoutSeconds: expected a whole number of 64 bits, got whole number 92", id="a number above int64"),
        pytest.param({"eager": 1}, "pluginConfig[2].args.eager: expected true or false, got whole number 1", id="a number for a boolean"),
        pytest.param({"groups": "a"}, "pluginConfig[2].args.groups: expected a list, got string 'a'", id="a string for a list"),
        pytest.param({"groups": ["a", 1]}, "pluginConfig[2].args.groups[1]: expected a string, got whole number 1", id="one bad entry of a list"),
        pytest.param({"groups": [None]}, "pluginConfig[2].args.groups[0]: expected a string, got null", id="null in a list"),
        pytest.param({"groups": ["a", "b", "c"]}, "pluginConfig[2].args.groups: too many: 3 entries, the maximum is 2", id="a list that is too long"),
        pytest.param({"groups": ["abcdef"]}, "pluginConfig[2].args.groups[0]: too long: 6 characters, the maximum is 5", id="an entry that is too long"),
        pytest.param({"groups": ["A"]}, "pluginConfig[2].args.groups[0]: 'A' does not have the form ^[a-z]*$", id="an entry that does not match the pattern"),
        pytest.param({"groups": ["a\n"]}, "pluginConfig[2].args.groups[0]: 'a\\n' does not have the form ^[a-z]*$", id="an entry that matches up to a line break"),
        pytest.param({"affinity": "x"}, "pluginConfig[2].args.affinity: expected an object, got string 'x'", id="a string for an object"),
        pytest.param({"limits": {"cpu": "4"}}, "pluginConfig[2].args.limits.cpu: expected a whole number, got string '4'", id="one bad value of a map"),
        pytest.param({"limits": {"nvidia.com/gpu": "4"}}, "pluginConfig[2].args.limits[nvidia.com/gpu]: expected a whole number, got string '4'", id="one bad value of a map, under a key with dots"),
        pytest.param({"eager": True, "timeoutSeconds": 1}, "pluginConfig[2].args.timeoutSeconds: is no use with eager", id="a ValueError of the dataclass"),
    ],
)  # fmt: skip
def test_invalid_args_are_rejected_with_the_path_of_the_field(raw, message):
    with pytest.raises(ArgsError) as caught:
        decode_args(SampleArgs, raw, WHERE)
    assert str(caught.value).startswith(message)
    assert len(caught.value.problems) == 1


def test_all_problems_are_reported_together():
    with pytest.raises(ArgsError) as caught:
        decode_args(SampleArgs, {"eager": 1, "ratio": "x", "nope": 0}, WHERE)
    assert {where for where, _ in caught.value.problems} == {f"{WHERE}.{key}" for key in ("eager", "ratio", "nope")}


def test_encoding_reverses_decoding():
    raw = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 5}]}, "groups": ["a"]}
    args = decode_args(SampleArgs, raw, WHERE)
    assert decode_args(SampleArgs, encode(args), WHERE) == args
    assert encode(args)["scoringStrategy"] == raw["scoringStrategy"]
    assert "timeoutSeconds" not in encode(args)


def test_the_schema_has_types_defaults_bounds_and_descriptions():
    schema = json_schema_of(SampleArgs)
    properties = schema["properties"]
    assert "required" not in schema
    assert properties["timeoutSeconds"] == {"type": "integer", "format": "int64"}
    assert properties["ratio"] == {"type": "number", "default": 0.5}
    assert properties["favorite_color"] == {"description": "What it likes.", "type": "string", "default": ""}
    assert properties["groups"] == {
        "type": "array",
        "maxItems": 2,
        "items": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
    }
    assert properties["affinity"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    strategy = properties["scoringStrategy"]["properties"]
    assert strategy["type"] == {
        "type": "string",
        "enum": ["LeastAllocated", "MostAllocated"],
        "default": "LeastAllocated",
    }
    assert strategy["resources"]["items"]["required"] == ["name"]
    assert strategy["resources"]["default"] == [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def test_a_dataclass_with_a_type_that_cannot_be_decoded_is_a_programming_error():
    @dataclass(frozen=True)
    class OddArgs:
        both: Any = None
        odd: complex = 0j

    with pytest.raises(TypeError, match="odd"):
        decode(OddArgs, {"odd": 1}, WHERE)


@dataclass(frozen=True)
class Amounts:
    least: int | str = 0
    most: int | str | None = None


def test_a_quantity_is_a_number_or_a_text():
    assert decode(Amounts, {"least": "1500m", "most": 2}, "spec") == Amounts("1500m", 2)
    schema = json_schema_of(Amounts)["properties"]
    assert schema == {
        "least": {"x-kubernetes-int-or-string": True, "default": 0},
        "most": {"x-kubernetes-int-or-string": True},
    }
    for wrong in ([], 1.5, True):
        with pytest.raises(ArgsError, match=r"spec\.most: expected a whole number"):
            decode(Amounts, {"most": wrong}, "spec")
