"""Cases: a cluster and a pending pod (or a sequence of steps), as JSON lines. Each runs on a core of its own."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import orjson

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.runtime import Framework
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.evaluation import evaluate, placed_node
from podwright.simulator.world import World, lists_of

Case = Mapping[str, Any]
_NOW: Final = 4e9
"""Seconds since the epoch, after any start time: a pod without a start time counts as started now."""


class CaseError(ValueError):
    """A case that cannot be run; the message names the case and the field."""


def read_cases(path: str) -> Iterator[Case]:
    """The cases of a file, `-` for standard input; `.gz` files are unpacked. Raises CaseError for bad JSON."""
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            case = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CaseError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(case, dict):
            raise CaseError(f"{path}:{number}: expected an object, got {type(case).__name__}")
        yield case


def _lines(path: str) -> Iterator[bytes]:
    if path == "-":
        yield from sys.stdin.buffer
    elif path.endswith(".gz"):
        with gzip.open(path) as packed:
            yield from packed
    else:
        with Path(path).open("rb") as plain:
            yield from plain


def run_case(case: Case, features: Features | None = None) -> dict[str, Any]:
    """The case's answer: `{"id", "expect"}`, or `{"id", "steps"}` for a sequence. Raises CaseError."""
    name = str(case.get("id") or "?")
    try:
        world = World(features, clock=lambda: _NOW)
        framework = _framework(case, world)
        world.fill(case)
        if "steps" in case:
            return {"id": name, "steps": [_step(framework, world, step) for step in case["steps"]]}
        pod = parse_pod(case.get("pod") or {}, keep_raw=True)
        return {"id": name, "expect": evaluate(framework, world.cache, pod)}
    except (InvalidObjectError, ProfileError) as error:
        raise CaseError(f"case {name}: {error}") from error


def _framework(case: Case, world: World) -> Framework:
    profile = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    return Framework(convert_profile(profile, "", PLUGINS, world.features), PLUGINS, world)


def _step(framework: Framework, world: World, step: Mapping[str, Any]) -> dict[str, Any]:
    cache = world.cache
    match next((key for key in step if key not in ("expect", "placed")), ""):
        case "schedule":
            return _schedule(framework, world, step["schedule"])
        case "addPod":
            world.set_pod(step["addPod"])
        case "updatePod":
            world.set_pod(step["updatePod"])
        case "deletePod":
            _delete_pod(world, step["deletePod"])
        case "addNode":
            cache.set_node(parse_node(step["addNode"]))
        case "updateNode":
            cache.set_node(parse_node(step["updateNode"]))
        case "deleteNode":
            cache.remove_node(step["deleteNode"])
        case "updateNamespace":
            cache.set_object("Namespace", step["updateNamespace"])
        case unknown:
            raise InvalidObjectError("steps", f"unknown step {unknown!r}")
    return {}


def _schedule(framework: Framework, world: World, raw: Mapping[str, Any]) -> dict[str, Any]:
    expectation = evaluate(framework, world.cache, parse_pod(raw, keep_raw=True), preemption=False)
    node = placed_node(expectation)
    if node is None:
        return {"expect": expectation}
    spec, status = {**raw["spec"], "nodeName": node}, {**(raw.get("status") or {}), "phase": "Running"}
    world.set_pod({**raw, "spec": spec, "status": status})
    return {"expect": expectation, "placed": node}


def _delete_pod(world: World, named: Mapping[str, Any]) -> None:
    key = f"{named.get('namespace') or 'default'}/{named['name']}"
    for info in world.cache.nodes.values():
        for pod in info.pods.values():
            if pod.key == key:
                world.cache.remove_pod(pod.uid)
                return


def case_from_dump(dump: object, pod: Mapping[str, Any]) -> Case:
    """A case from a `kubectl get nodes,pods,… -o json` and a pod manifest. Raises CaseError."""
    items = dump.get("items") if isinstance(dump, dict) else None
    if not isinstance(items, list):
        raise CaseError("the dump has no items: expected the output of kubectl get … -o json")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise CaseError(f"the dump's items[{number}]: expected an object, got {type(item).__name__}")
    metadata = pod.get("metadata")
    return {
        "id": str((metadata.get("name") if isinstance(metadata, dict) else None) or "pod"),
        **lists_of(cast("Sequence[Case]", items)),
        "pod": pod,
    }
