"""`podwright policy diff`: which pods of a cluster would go elsewhere under other policies, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from podwright.cli.main import main
from support.objects.builders import make_policy


def node(name: str, cpu: str = "4", **labels: str) -> Mapping[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def pod(name: str, cpu: str = "1", owner: str = "", **spec: Any) -> Mapping[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "apiVersion": "v1", "controller": True}]
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "podwright", "containers": containers, **spec},
    }


CLUSTER = [
    node("a", tier="gold"),
    node("b", tier="silver"),
    pod("placed", nodeName="a"),
    pod("waiting"),
    pod("daemon", owner="DaemonSet", nodeName="b"),
]
GOLD = {"rules": {"filters": [{"name": "t", "expression": "node.labels['tier'] == 'gold'", "message": "other tier"}]}}
PACK = {"strategy": {"type": "MostAllocated"}}


def run(
    folder: Path, *flags: str, old: Mapping[str, Any] | None = None, new: Mapping[str, Any] | None = None
) -> Result:
    cluster = [*CLUSTER, make_policy()]
    (folder / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster}))
    arguments = ["policy", "diff", str(folder / "c.json"), *flags]
    for name, spec in (("old", old), ("new", new)):
        if spec is not None:
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(make_policy(**spec)))
            arguments += [f"--{name}", str(folder / f"{name}.yaml")]
    return CliRunner().invoke(main, arguments)


def test_pods_that_another_policy_places_elsewhere_are_listed_with_the_cause(tmp_path: Path) -> None:
    result = run(tmp_path, new=PACK)
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "default/placed (on a)\n"
        "  before: a (p@0)\n"
        "  after:  b (p@0)\n"
        "  why:    NodeResourcesFit scores b higher than a, by 38 more under p@0\n"
        "1 of 2 pods would go elsewhere\n"
    )


def test_a_filter_that_rejects_the_node_is_the_cause(tmp_path: Path) -> None:
    answer = json.loads(run(tmp_path, "-o", "json", new=GOLD).stdout)
    assert answer["pods"] == 2
    (found,) = answer["differences"]
    assert (found["pod"], found["node"]) == ("default/waiting", "")
    assert (found["before"]["best"], found["after"]["best"]) == (["a", "b"], ["a"])
    assert found["why"].startswith("p@0 rejects b: PolicyRules: ")
    assert "other tier" in found["why"]


def test_equal_policies_make_no_difference(tmp_path: Path) -> None:
    assert run(tmp_path, new={}).stdout == "0 of 2 pods would go elsewhere\n"
    assert run(tmp_path, old=PACK, new=PACK).stdout == "0 of 2 pods would go elsewhere\n"


def test_policies_of_old_replace_those_of_the_cluster(tmp_path: Path) -> None:
    one, other = run(tmp_path, "-o", "json", old=GOLD, new={}), run(tmp_path, "-o", "json", new=GOLD)
    (before,), (after,) = (json.loads(result.stdout)["differences"] for result in (one, other))
    assert (before["before"]["best"], before["after"]["best"]) == (after["after"]["best"], after["before"]["best"])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [pytest.param({"strategy": {"type": "No"}}, "policy p: spec.strategy.type: 'No' is not one of", id="not accepted")],
)
def test_a_policy_that_is_not_accepted_is_an_error(tmp_path: Path, spec: Mapping[str, Any], problem: str) -> None:
    result = run(tmp_path, new=spec)
    assert result.exit_code == 1
    assert problem in result.output
