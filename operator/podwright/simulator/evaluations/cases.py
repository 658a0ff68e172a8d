"""Reads and runs cases: JSON lines with a cluster and a pending pod, or a sequence of steps. Each case has its own
core.

docs/evaluate.md describes the fields of a case and of its answer.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.raw import json_type
from podwright.core.plugins import PLUGINS
from podwright.simulator.evaluations.evaluation import evaluate, placed_node
from podwright.simulator.world import NOW, World, object_of, objects_of

Case = Mapping[str, Any]
_DUMP_NEEDS_POD: Final = "for a dump of kubectl get … -o json, give the pod with --pod"


class CaseError(ValueError):
    """A case that cannot be run; the message names the case and the field. `id` is the case's id, or `file:line`."""

    def __init__(self, message: str, id_: str = "?") -> None:
        super().__init__(message)
        self.id = id_


def read_cases(path: str) -> Iterator[Case | CaseError]:
    """Yields the cases of a file, or of standard input for `-`. Unpacks `.gz` files. Raises OSError.

    Yields a CaseError with the id `file:line` for a line that is not a case, and goes on with the next line.
    """
    number = 0
    try:
        for number, line in enumerate(_lines(path), start=1):
            if line.strip() == b"{":
                yield _bad(path, number, f"expected one case on each line: {_DUMP_NEEDS_POD}")
                return
            if line.strip():
                yield _case(line, path, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield _bad(path, number + 1, f"cannot be unpacked: {error}")


def answered(paths: Iterable[str], answer: Callable[[Case], dict[str, Any]]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """The cases of these files with their answers. The answer of one that cannot be run has its id and an `error`.
    Raises OSError.
    """
    for path in paths:
        for read in read_cases(path):
            case: Case = {} if isinstance(read, CaseError) else read
            try:
                if isinstance(read, CaseError):
                    raise read
                found = answer(read)
            except CaseError as error:
                found = {"id": error.id, "error": str(error)}
            yield case, found


def _case(line: bytes, path: str, number: int) -> Case | CaseError:
    try:
        case = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _bad(path, number, f"not JSON: {error}")
    if not isinstance(case, dict):
        return _bad(path, number, f"expected an object, got {json_type(case)}")
    return case


def _bad(path: str, number: int, problem: str) -> CaseError:
    where = f"{path}:{number}"
    return CaseError(f"{where}: {problem}", where)


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
    """Returns the answer: `{"id", "expect"}`, or `{"id", "steps"}` for a sequence. Raises CaseError."""
    name = case_id(case)
    try:
        if "items" in case:
            raise InvalidObjectError("items", _DUMP_NEEDS_POD)
        world = World(features, clock=lambda: NOW)
        framework = _framework(case, world)
        world.fill(case)
        if case.get("steps") is not None:
            steps = objects_of(case["steps"], "steps")
            return {"id": name, "steps": [_step(framework, world, step, f"steps[{i}]") for i, step in enumerate(steps)]}
        pod = parse_pod(object_of(case.get("pod"), "pod"), keep_raw=True)
        world.wait(pod)
        return {"id": name, "expect": evaluate(framework, world.cache, pod)}
    except (InvalidObjectError, ProfileError, PluginError) as error:
        raise CaseError(f"case {name}: {error}", name) from error
    except Exception as error:
        raise CaseError(f"case {name}: {type(error).__name__}: {error}", name) from error


def case_id(case: Case) -> str:
    """The id of the case in its answer."""
    return str(case.get("id") or "?")


def _framework(case: Case, world: World) -> Framework:
    profile = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    return Framework(convert_profile(profile, "", PLUGINS, world.features), PLUGINS, handle=world)


def _step(framework: Framework, world: World, step: Mapping[str, Any], where: str) -> dict[str, Any]:
    action = next((key for key in step if key not in ("expect", "placed")), "")
    raw, where = step.get(action), f"{where}.{action}"
    match action:
        case "schedule":
            return _schedule(framework, world, object_of(raw, where))
        case "addPod" | "updatePod":
            world.set_pod(object_of(raw, where))
        case "deletePod":
            _delete_pod(world, object_of(raw, where), where)
        case "addNode" | "updateNode":
            world.cache.set_node(parse_node(object_of(raw, where)))
        case "deleteNode":
            world.cache.remove_node(_name_of(raw, where))
        case "updateNamespace":
            world.cache.set_object("Namespace", object_of(raw, where))
        case unknown:
            raise InvalidObjectError("steps", f"unknown step {unknown!r}")
    return {}


def _schedule(framework: Framework, world: World, raw: Mapping[str, Any]) -> dict[str, Any]:
    expectation = evaluate(framework, world.cache, parse_pod(raw, keep_raw=True), preemption=False)
    node = placed_node(expectation)
    if node is None:
        return {"expect": expectation}
    spec, status = {**(raw.get("spec") or {}), "nodeName": node}, {**(raw.get("status") or {}), "phase": "Running"}
    world.set_pod({**raw, "spec": spec, "status": status})
    return {"expect": expectation, "placed": node}


def _delete_pod(world: World, named: Mapping[str, Any], where: str) -> None:
    key = f"{named.get('namespace') or 'default'}/{_name_of(named.get('name'), f'{where}.name')}"
    for info in world.cache.nodes.values():
        for pod in info.pods.values():
            if pod.key == key:
                world.cache.remove_pod(pod.uid)
                return


def _name_of(raw: object, where: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise InvalidObjectError(where, "a name is required")
    return raw
