"""The generated CRD, and the example and bad policies checked against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from podwright.api import crd
from podwright.api.compile import OperatorDefinitions, compile_policy
from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.api.policy_status import status_of
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.api.spec.strategy import StrategyType
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.plugins import PLUGINS
from podwright.sandbox.schemas import Schema
from podwright.sandbox.tables import at
from podwright.simulator.world import World
from support.objects import policies as files

SETTINGS = PolicySettings(
    signals=load_signals((files.ROOT / "manifests" / "overlays" / "signals" / "signals.yaml").read_bytes())
)
"""With the signals that examples name."""
SCHEMA = crd.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
QUEUE_SCHEMA = crd.crd("SchedulingQueue")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
REBALANCE_SCHEMA = crd.crd("RebalancePolicy")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
EACH_SCHEMA = pytest.mark.parametrize(
    "schema", [SCHEMA, QUEUE_SCHEMA, REBALANCE_SCHEMA], ids=["policies", "queues", "rebalancing"]
)


def test_the_files_are_up_to_date():
    assert crd.main(["--check", str(files.CRD.parent)]) == 0, "run `make crds`"


def test_check_names_each_missing_or_outdated_file(tmp_path, capsys):
    folder = tmp_path / "deeper" / "crds"
    assert crd.main(["--check", str(folder)]) == 1
    assert capsys.readouterr().err.count("run `make crds`") == 8
    assert crd.main([str(folder)]) == 0
    assert crd.main(["--check", str(folder)]) == 0
    path = folder / files.CRD.name
    path.write_text(path.read_text().replace("int32", "int64"))
    assert crd.main(["--check", str(folder)]) == 1
    assert capsys.readouterr().err == f"{path} is out of date: run `make crds`\n"


@pytest.mark.parametrize("arguments", [[], ["--check"], ["--chekc", "crds"], ["one", "two"]], ids=" ".join)
def test_wrong_arguments_print_the_usage(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        crd.main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m podwright.api.crd" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_prints_the_usage_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        crd.main(["--help"])
    assert ended.value.code == 0
    assert "usage: python -m podwright.api.crd [-h]" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from walk(schema[key], f"{path}[]")


@EACH_SCHEMA
def test_every_field_has_a_description(schema):
    undescribed = [path for path, each in walk(schema) if not path.endswith("[]") and "description" not in each]
    assert undescribed == [".metadata"]


@EACH_SCHEMA
def test_every_list_map_and_string_of_the_spec_is_bounded(schema):
    unbounded = []
    for path, each in walk(schema["properties"]["spec"], "spec"):
        kind = each.get("type")
        if kind == "array" and "maxItems" not in each:
            unbounded.append(path)
        if kind == "string" and "maxLength" not in each and "enum" not in each:
            unbounded.append(path)
        if "additionalProperties" in each and "maxProperties" not in each:
            unbounded.append(path)
    assert unbounded == []


def test_the_columns_say_that_a_policy_is_shadowed():
    (reason,) = [
        each for each in crd.crd()["spec"]["versions"][0]["additionalPrinterColumns"] if each["name"] == "Reason"
    ]
    policies = PolicySet(PLUGINS, Features())
    policies.apply({"metadata": {"name": "a", "generation": 1}, "spec": {}})
    applied = policies.apply({"metadata": {"name": "b", "generation": 1}, "spec": {}})
    assert at(reason["jsonPath"])({"status": status_of(policies, applied, None, "2026-01-01T12:00:00Z")}) == "Shadowed"
    assert "priority" not in reason


@pytest.mark.parametrize("path", files.each(files.EXAMPLES))
def test_examples_are_valid_and_compile(path):
    raw = files.load(path)
    schema = Schema(SCHEMA)
    assert schema.problems(raw) == []
    assert schema.prune(raw) == []
    compiled = compile_policy(
        parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(signals=SETTINGS.signal_definitions)
    )
    assert compiled.name == path.stem


@pytest.mark.parametrize("path", files.each(files.EXAMPLES))
def test_the_schema_and_the_operator_have_the_same_defaults(path):
    raw, filled = files.load(path), files.load(path)
    Schema(SCHEMA).default(filled)
    assert filled["spec"]["precedence"] is not None
    assert parse_policy(filled) == parse_policy(raw)


def test_there_is_an_example_for_every_strategy():
    used = {files.load(path)["spec"].get("strategy", {}).get("type", "Default") for path in files.EXAMPLES}
    assert used == set(get_args(StrategyType))


def test_all_examples_can_be_active_at_once():
    world = World(signals=SETTINGS.signal_definitions)
    policies = PolicySet(
        PLUGINS, Features(), check=lambda found: Framework(found.profile, PLUGINS, world), settings=SETTINGS
    )
    for path in files.EXAMPLES:
        assert policies.apply(files.load(path)).accepted
    assert [policy.name for policy in policies.active if policies.shadowed_by(policy.name)] == []


@pytest.mark.parametrize("path", files.each(files.BAD))
def test_the_operator_rejects_bad_policies_even_without_the_schema(path):
    with pytest.raises(PolicyError) as caught:
        compile_policy(parse_policy(files.load(path)), PLUGINS, Features())
    assert files.wrong_field(path) in caught.value.message


def static_text(rule: dict[str, Any]) -> str:
    """The part of the rule's message that does not depend on the policy."""
    return re.split(r"^'|' \+ ", rule["messageExpression"])[1] if "messageExpression" in rule else rule["message"]


def test_every_rule_of_the_schema_rejects_one_of_the_bad_policies_in_the_operator():
    messages = []
    for path in files.BAD:
        with pytest.raises(PolicyError) as caught:
            compile_policy(parse_policy(files.load(path)), PLUGINS, Features())
        messages.append(caught.value.message)
    rules = [rule for _, schema in walk(SCHEMA) for rule in schema.get("x-kubernetes-validations", ())]
    assert rules
    assert [rule for rule in rules if not any(static_text(rule) in message for message in messages)] == []
