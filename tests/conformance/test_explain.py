"""`explain` agrees with what the scheduler does, over a sixth of the conformance cases, with `make fuzz` over all: the
verdict, the nodes, the reasons with their counts, the message, and the node of a preemption. Each change that it
proposes places the pod.
"""

from collections import Counter
from dataclasses import replace

import pytest

from podwright.api.compile import built_in_of
from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.api.permissions import PolicySettings
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME as DEFAULT
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.explain.explanation import explain_under
from podwright.simulator.explain.results import PodState
from podwright.simulator.loaded import load
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.world import NOW
from support.conformance.files import FILES, name_of, sample
from support.explain.kit import KINDS, Cluster, apply

pytestmark = pytest.mark.slow


def singles(path, every):
    return [case for case in sample(path, every) if "pod" in case]


def explained(case):
    """The explanation of a case under the profile of the case, without changes."""
    cluster = load(Snapshot(objects=[], taken_at=NOW))
    cluster.world.fill(case)
    profile = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    compiled = built_in_of(convert_profile(profile, "", PLUGINS, cluster.world.features))
    framework = Framework(compiled.profile, PLUGINS, handle=cluster.world)
    policy = replace(cluster.policies.default, compiled=compiled, framework=framework, hints=framework.hints)
    return explain_under(policy, cluster, parse_pod(case["pod"], keep_raw=True), None)


def differences(found, expected):
    if gate := expected.get("preEnqueue"):
        if (found.state, found.message) != (PodState.GATED, ", ".join(gate["reasons"])):
            yield f"gate: {found.state} {found.message!r}, expected {gate}"
        return
    if "error" in expected:
        errors = expected.get("errors") or [expected["error"]]
        if found.cause.reason not in ("PluginFailed", "DeviceSelectorFails") or found.message not in errors:
            yield f"error: {found.cause}, expected {expected['error']!r}"
        return
    nodes = expected["nodes"]
    feasible = sum(verdict["feasible"] for verdict in nodes.values())
    if bool(feasible) != (found.state is PodState.FITS):
        yield f"state: {found.state}, feasible nodes: {feasible}"
    if found.state is PodState.FITS:
        if found.feasible != feasible:
            yield f"feasible: {found.feasible}, expected {feasible}"
        return
    if found.message not in (expected.get("messages") or [expected.get("message")]):
        yield f"message: {found.message!r}, expected {expected.get('message')!r}"
    if nodes and "prefilterStatus" not in expected:
        reasons = Counter()
        for verdict in nodes.values():
            reasons.update((verdict["plugin"], reason) for reason in verdict["reasons"])
        counted = Counter({(group.plugin, group.reason): group.nodes for group in found.rejections})
        if counted != reasons:
            yield f"rejections: {counted}, expected {reasons}"
        if len(found.causes) != len(reasons) and found.causes[0].reason != "WaitsForPreemption":
            yield f"causes: {len(found.causes)}, expected {len(reasons)}"
    preemption = expected.get("preemption") or {}
    possible = preemption.get("acceptable") or [preemption.get("nominatedNode") or ""]
    if preemption and found.preemption is not None and found.preemption.node not in possible:
        yield f"preemption: {found.preemption.node!r}, expected one of {possible}"


def of(case):
    """The case as a cluster of objects, and its pod."""
    plugins = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    strategy = {"strategy": {"type": "Custom"}} if "plugins" in plugins else {}
    spec = {"schedulerName": DEFAULT, **strategy, **plugins}
    policy = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": "case"},
        "spec": spec,
    }
    objects = {"nodes": [], "pods": [], **{key: case[key] for key in KINDS if case.get(key)}}
    settings = PolicySettings(scheduler_name=DEFAULT, allow_unsafe=True)
    pod = {**case["pod"], "spec": {**case["pod"]["spec"], "schedulerName": DEFAULT}}
    return Cluster(objects, (policy,) if plugins else (), settings=settings), pod


def unproved(case):
    """The changes that are proposed and do not place the pod when they are applied."""
    cluster, pod = of(case)
    for change in cluster.explain(pod).changes:
        after = cluster_after(change, cluster, pod)
        placed = (
            after.preemption is not None and after.preemption.node == change.node
            if change.after_preemption
            else after.state is PodState.FITS
        )
        if not placed:
            yield change.text, after.causes


def cluster_after(change, cluster, pod):
    changed, pod = apply(change, cluster, pod)
    return changed.explain(pod, changes=False)


def test_explanations_agree_with_kube_scheduler_in_a_sixth_of_the_cases():
    wrong, count = {}, 0
    for path in FILES:
        for case in singles(path, 6):
            count += 1
            if found := list(differences(explained(case), case["expect"])):
                wrong[f"{name_of(path)}/{case['id']}"] = found
    assert count
    assert not wrong, f"{len(wrong)} of {count} differ, first: {next(iter(wrong.items()))}"


def test_each_proposed_change_places_the_pod_in_a_sample_of_the_cases():
    cases = [case for path in FILES for case in singles(path, 40)]
    wrong = {case["id"]: found for case in cases if (found := [*unproved(case)])}
    assert cases
    assert not wrong
