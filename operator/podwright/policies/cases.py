"""Tests of policies, written in YAML: nodes, pods and policies, and where the pods should go. docs/policy-tools.md has
the format.

`read_suite` reads a file, `run_case` runs one test of it: the production core schedules the pods in memory, one by one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from podwright.api.configuration.signals import Signals, parse_signals
from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import GROUP, KIND, PODWRIGHT_SCHEDULER_NAME, VERSION
from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.validation import describe
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod, parse_time
from podwright.core.objects.raw import Raw
from podwright.core.queues.queues import Queues
from podwright.kube.bounded_files import read_at_most
from podwright.simulator.evaluations.evaluation import evaluate
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.manifests import ManifestError, documents_of, read_manifests
from podwright.simulator.queue_objects import queue_kind_of
from podwright.simulator.scheduling import Scheduling, SchedulingOutcome
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.trial import Trial
from podwright.simulator.tried_policies import enforced

LONGEST_SUITE: Final = 16 << 20
"""Bytes of a file of tests."""
_ALLOCATABLE: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_NAMESPACE: Final = "default"
_FIELDS: Final = ("pending", "policy", "queue", "flavor", "rejected")
"""The fields that a test may expect, besides the node."""


class SuiteError(Exception):
    """A file of tests cannot be run. The message names the file and the field."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    policies: tuple[Any, ...] = field(default=(), metadata=describe("Files, relative to this one, or policies."))
    nodes: tuple[Mapping[str, Any], ...] = ()
    objects: tuple[Mapping[str, Any], ...] = ()
    signals: tuple[Mapping[str, Any], ...] = field(
        default=(), metadata=describe("Signals, as in the file of --signals; `values` has the numbers of nodes.")
    )
    time: str = field(default="", metadata=describe("What time it is for rules that read `now`, in RFC 3339."))


@dataclass(frozen=True, slots=True)
class _Case(_Surroundings):
    name: str = field(default="", metadata=describe("What the test shows.", minLength=1))
    pods: tuple[Mapping[str, Any], ...] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Suite(_Surroundings):
    tests: tuple[_Case, ...] = field(default=(), metadata=describe("The tests."))


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result for a pod. `nodes`: the pod gets one of these nodes; empty: any. `pending`: a part of the
    message; None if the pod should get a node.
    """

    nodes: tuple[str, ...] = ()
    pending: str | None = None
    policy: str = ""
    queue: str = ""
    flavor: str = ""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """By node that should be rejected when the pod is first tried: a part of the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: the objects of its cluster, its pods in order, what is expected, by namespace/name, signals besides
    those of the options, and the time in seconds since the epoch, if the test says it.
    """

    name: str
    objects: Sequence[Raw]
    pods: Sequence[Raw]
    expected: Mapping[str, Expected]
    signals: Signals = field(default_factory=dict)
    time: float | None = None


def read_suite(path: Path) -> Sequence[Case]:
    """The tests of a file. Raises SuiteError."""
    try:
        documents = documents_of(read_at_most(path, LONGEST_SUITE, pipes=True), str(path))
        if len(documents) != 1:
            raise SuiteError(f"{path}: expected one document, got {len(documents)}")
        suite = decode(_Suite, documents[0], "")
    except ManifestError as error:
        raise SuiteError(str(error)) from error
    except ArgsError as error:
        problems = "; ".join(f"{where.removeprefix('.')}: {problem}" for where, problem in error.problems[:10])
        raise SuiteError(f"{path}: {problems}") from error
    except OSError as error:
        raise SuiteError(f"{path}: {error.strerror or error}") from error
    if not suite.tests:
        raise SuiteError(f"{path}: tests: is missing or empty")
    shared = [*_objects(suite, path, "")]
    signals, time = _signals(suite, path, ""), _time(suite, path, "")
    cases = [_case(case, shared, path, f"tests[{index}]") for index, case in enumerate(suite.tests)]
    return [
        replace(case, signals={**signals, **case.signals}, time=time if case.time is None else case.time)
        for case in cases
    ]


def _case(case: _Case, shared: Sequence[Raw], path: Path, where: str) -> Case:
    pods = [_pod(raw, path, f"{where}.pods[{index}]") for index, raw in enumerate(case.pods)]
    keys = {f"{raw['metadata']['namespace']}/{raw['metadata']['name']}": raw for raw in pods}
    if len(keys) != len(pods):
        raise SuiteError(f"{path}: {where}.pods: two pods have the same name")
    if not case.expect:
        raise SuiteError(f"{path}: {where}.expect: is missing")
    expected = {}
    for name, value in case.expect.items():
        key = name if "/" in name else f"{_NAMESPACE}/{name}"
        if key not in keys:
            raise SuiteError(f"{path}: {where}.expect: the test has no pod {key}")
        expected[key] = _expected(value, path, f"{where}.expect.{name}")
    objects = [*shared, *_objects(case, path, f"{where}.")]
    return Case(case.name, objects, pods, expected, _signals(case, path, f"{where}."), _time(case, path, f"{where}."))


def _time(given: _Surroundings, path: Path, where: str) -> float | None:
    try:
        return parse_time(given.time or None, f"{where}time")
    except InvalidObjectError as error:
        raise SuiteError(f"{path}: {error}") from error


def _signals(given: _Surroundings, path: Path, where: str) -> Signals:
    try:
        return parse_signals({"signals": [dict(each) for each in given.signals]})
    except ArgsError as error:
        raise SuiteError(f"{path}: {'; '.join(f'{where}{at}: {why}' for at, why in error.problems)}") from error


def _expected(value: Any, path: Path, where: str) -> Expected:
    if isinstance(value, str):
        return Expected(nodes=(value,))
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return Expected(nodes=tuple(value))
    if isinstance(value, Mapping):
        node = value.get("node", ())
        fields = {**value, "nodes": [node] if isinstance(node, str) else node}
        fields.pop("node", None)
        if value.keys() <= {"node", *_FIELDS} and value:
            try:
                return decode(Expected, fields, where)
            except ArgsError as error:
                raise SuiteError(f"{path}: {'; '.join(f'{at}: {why}' for at, why in error.problems)}") from error
    raise SuiteError(f"{path}: {where}: expected a node, a list of nodes, or node, {', '.join(_FIELDS)}")


def _objects(given: _Surroundings, path: Path, where: str) -> Iterator[Raw]:
    for index, entry in enumerate(given.policies):
        if isinstance(entry, Mapping):
            yield {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **entry}
            continue
        try:
            found = read_manifests(str(path.parent / str(entry)))
        except ManifestError as error:
            raise SuiteError(f"{path}: {where}policies[{index}]: {error}") from error
        yield from (raw for raw in found if raw["kind"] in (KIND, LOCAL_KIND) or queue_kind_of(raw) is not None)
    for raw in given.nodes:
        yield _node(raw)
    for index, raw in enumerate(given.objects):
        if not isinstance(raw.get("kind"), str):
            raise SuiteError(f"{path}: {where}objects[{index}].kind: is missing")
        yield raw


def _node(raw: Raw) -> Raw:
    """The node, with allocatable resources added if the test does not give them."""
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", **raw}
    status = node.get("status")
    if not isinstance(status, Mapping) or "allocatable" not in status:
        node["status"] = {"allocatable": _ALLOCATABLE, **(status if isinstance(status, Mapping) else {})}
    return node


def _pod(raw: Raw, path: Path, where: str) -> Raw:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(dict(raw))}
    metadata, spec = pod.get("metadata"), pod.setdefault("spec", {})
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise SuiteError(f"{path}: {where}.metadata.name: a name is required")
    if not isinstance(spec, dict):
        raise SuiteError(f"{path}: {where}.spec: expected an object")
    metadata.setdefault("namespace", _NAMESPACE)
    spec.setdefault("schedulerName", PODWRIGHT_SCHEDULER_NAME)
    spec.setdefault("containers", [{"name": "c", "image": "example.com/app"}])
    return pod


def run_case(case: Case, options: LoadOptions) -> Sequence[str]:
    """Runs a test. Returns what is not as expected, with the exceptions of plugins; empty if the test passes. A policy
    that is not accepted fails every test.
    """
    settings = replace(options.settings, signals={**options.settings.signals, **case.signals})
    cluster = load(
        Snapshot(objects=[*map(enforced, case.objects)], taken_at=case.time), replace(options, settings=settings)
    )
    wrong = [*cluster.problems, *(f"policy {each.name}: {each.message}" for each in cluster.refused)]
    if wrong:
        return wrong
    with Trial(cluster) as trial:
        scheduling = Scheduling(cluster, trial)
        verdicts: dict[str, Mapping[str, Any]] = {}
        uids = {}
        for raw in case.pods:
            try:
                pod = parse_pod(raw, keep_raw=True)
            except InvalidObjectError as error:
                wrong.append(str(error.in_object("Pod", raw["metadata"]["name"])))
                continue
            uids[pod.key] = pod.uid
            verdicts[pod.key] = _place(pod, case.expected.get(pod.key), cluster, trial, scheduling)
        for key, expected in case.expected.items():
            if key in uids:
                wrong += _differences(key, expected, uids[key], scheduling.outcome, verdicts[key])
                wrong += _queue_differences(key, expected, uids[key], scheduling.outcome, cluster.queues)
        if wrong:
            wrong += cluster.params_notes
            for name in cluster.policy_objects:
                wrong += cluster.policies.plugin_exceptions_of(name).splitlines()
        return wrong


def _place(
    pod: PodInfo, expected: Expected | None, cluster: LoadedCluster, trial: Trial, scheduling: Scheduling
) -> Mapping[str, Any]:
    """Schedules the pod, on its node if it has one. Returns the verdict on each node before that, if the test asks for
    it.
    """
    if pod.node_name:
        cluster.cache.set_pod(pod)
        return {}
    verdicts: Mapping[str, Any] = {}
    if expected is not None and expected.rejected:
        verdicts = evaluate(cluster.policy_for(pod).framework, cluster.cache, pod, preemption=False)["nodes"]
    trial.add_pending(pod)
    scheduling.add(pod)
    scheduling.settle()
    return verdicts


def _differences(
    key: str, expected: Expected, uid: str, outcome: SchedulingOutcome, verdicts: Mapping[str, Any]
) -> Iterator[str]:
    landed, pending = outcome.landed.get(uid), outcome.pending.get(uid)
    policy = ""
    if landed is not None:
        policy = landed.policy
        if expected.pending is not None:
            yield f"{key}: is on {landed.node_name}, and should be pending: {expected.pending}"
        elif expected.nodes and landed.node_name not in expected.nodes:
            yield f"{key}: is on {landed.node_name}, and should be on {' or '.join(expected.nodes)}"
    elif pending is not None:
        policy = pending.policy
        if expected.pending is None and (expected.nodes or not expected.rejected):
            yield f"{key}: is pending: {pending.message}"
        elif expected.pending is not None and expected.pending not in pending.message:
            yield f"{key}: is pending: {pending.message}\n  expected: {expected.pending}"
    else:
        yield f"{key}: was preempted, or was on a node from the start"
    if expected.policy and expected.policy != policy.rpartition("@")[0]:
        yield f"{key}: policy {policy or 'none'} decided, and should be {expected.policy}"
    for node, reason in expected.rejected.items():
        verdict = verdicts.get(node)
        if verdict is None:
            yield f"{key}: there is no node {node}"
        elif verdict["feasible"]:
            yield f"{key}: node {node} is feasible, and should be rejected: {reason}"
        elif not any(reason in text for text in verdict["reasons"]):
            yield f"{key}: node {node} is rejected: {', '.join(verdict['reasons'])}\n  expected: {reason}"


def _queue_differences(
    key: str, expected: Expected, uid: str, outcome: SchedulingOutcome, queues: Queues
) -> Iterator[str]:
    landed, pending = outcome.landed.get(uid), outcome.pending.get(uid)
    found = landed or pending
    if expected.queue and found is not None:
        queue = queues.queue_of(found.pod) if queues.active else ""
        if queue != expected.queue:
            yield f"{key}: is in {f'queue {queue}' if queue else 'no queue'}, and should be in {expected.queue}"
    if expected.flavor and landed is not None:
        flavors = queues.flavors_on(landed.pod, landed.node_name)
        if expected.flavor not in flavors:
            yield f"{key}: counts in {', '.join(flavors) or 'no flavor'}, and should count in {expected.flavor}"
