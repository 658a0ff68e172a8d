"""`podwright simulate` says of conformance cases what kube-scheduler does with the pod: of a sixth, with `make fuzz` of
all.
"""

import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.cycle import find_feasible
from podwright.core.framework.interface import CycleState
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME, parse_pod
from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.simulator.evaluations.evaluation import evaluate
from podwright.simulator.hypotheses.hypothesis import Hypothesis
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.simulation import simulate
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.trial import Trial
from support.conformance.files import FILES, name_of, sample

DEALLOCATED = "deallocation of ResourceClaim completed"
SETTINGS = PolicySettings(scheduler_name=KUBERNETES_DEFAULT_SCHEDULER_NAME, allow_unsafe=True)

pytestmark = pytest.mark.slow


def loaded(case):
    objects = [
        {"kind": watched.kind, **raw} for watched in WATCHED_KINDS for raw in case.get(watched.plural_field) or ()
    ]
    plugins = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    if plugins:
        strategy = {"strategy": {"type": "Custom"}} if "plugins" in plugins else {}
        spec = {"schedulerName": KUBERNETES_DEFAULT_SCHEDULER_NAME, **strategy, **plugins}
        objects.append({"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "case"}, "spec": spec})  # fmt: skip
    cluster = load(Snapshot(objects=objects), LoadOptions(settings=SETTINGS))
    assert cluster.refused == []
    return cluster


def of_scheduler(raw):
    """The pod with the name of the scheduler that the cases are about."""
    return {**raw, "kind": "Pod", "spec": {**raw["spec"], "schedulerName": KUBERNETES_DEFAULT_SCHEDULER_NAME}}


def difference(cluster, raw, expected):
    """Returns the difference between the simulation's and kube-scheduler's answers; None if they agree."""
    result = simulate(cluster, Hypothesis(pods=[of_scheduler(raw)], retry_pending=False))
    (landing,), pending = result.landed or [None], [each for each in result.pending if each.cause == "added"]
    if DEALLOCATED in (expected.get("message") or ""):
        expected = _after_deallocation(cluster, raw)
    preemption = expected.get("preemption") or {}
    if expected.get("best"):
        good = landing is not None and landing.node in expected["best"] and not result.preempted
    elif preemption.get("nominatedNode"):
        candidate = preemption["candidates"].get("" if landing is None else landing.node) or {}
        victims = [{*candidate.get("victims", ())}, *({*each} for each in candidate.get("alternatives") or ())]
        evicted = {each.pod for each in result.preempted}
        good = landing is not None and landing.node in preemption["acceptable"] and evicted in victims
    elif expected.get("error"):
        good = landing is None
    elif pending and _is_gated(cluster, raw):
        # The cases are about the scheduling cycle, which a gated pod does not reach.
        good = pending[0].message in expected["message"]
    else:
        messages = [expected.get("message"), *(expected.get("messages") or ())]
        good = landing is None and bool(pending) and pending[0].message in messages and not result.preempted
    return None if good else (landing, pending, result.preempted, expected.get("best"), expected.get("message"), preemption)  # fmt: skip


def _after_deallocation(cluster, raw):
    """Returns the core's answer about the pod in the next attempt, when the claims that are of no use to it have no
    devices any more.
    """
    pod = parse_pod(of_scheduler(raw), keep_raw=True)
    framework, state = cluster.policy_for(pod).framework, CycleState()
    with Trial(cluster) as trial:
        search = find_feasible(framework, cluster.cache, pod, state)
        framework.post_filter(state, pod, search.diagnosis)
        assert trial.follow_up(state.follow_ups)
        return evaluate(framework, cluster.cache, pod)


def _is_gated(cluster, raw):
    pod = parse_pod(of_scheduler(raw))
    return cluster.policy_for(pod).framework.pre_enqueue(pod) is not None


def do(step, cluster):
    """A step of a sequence that is not about a pending pod."""
    match step:
        case {"addPod": raw} | {"updatePod": raw}:
            cluster.world.set_pod(raw)
        case {"deletePod": named}:
            key = f"{named.get('namespace') or 'default'}/{named['name']}"
            pods = [pod for info in cluster.cache.nodes.values() for pod in info.pods.values() if pod.key == key]
            for gone in pods:
                cluster.cache.remove_pod(gone.uid)
        case {"addNode": raw} | {"updateNode": raw}:
            cluster.cache.set_node(parse_node(raw))
        case {"deleteNode": name}:
            cluster.cache.remove_node(name)
        case {"updateNamespace": raw}:
            cluster.cache.set_object("Namespace", raw)
        case _:
            pytest.fail(f"unknown step {sorted(step)}")


def differences(case):
    cluster = loaded(case)
    if not case.get("steps"):
        yield difference(cluster, case["pod"], case["expect"])
        return
    for step in case["steps"]:
        if "schedule" not in step:
            do(step, cluster)
            continue
        raw = step["schedule"]
        yield difference(cluster, raw, step["expect"])
        if step.get("placed"):
            cluster.world.set_pod({**raw, "spec": {**raw["spec"], "nodeName": step["placed"]}, "status": {**(raw.get("status") or {}), "phase": "Running"}})  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_simulation_says_what_kube_scheduler_does(path):
    wrong = {}
    cases = [*sample(path, 6)]
    for case in cases:
        found = [each for each in differences(case) if each is not None]
        if found:
            wrong[case["id"]] = found[0]
    assert cases
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, first: {next(iter(wrong.items()))}"
