"""The answers of /debug/explain: the place in the queue and the last decisions, bounded in time and in what they
tell.
"""

from podwright.core.objects.pod_group import COMPOSITE_KIND, KIND
from podwright.core.queue import Waits
from podwright.engine.process.steps import at_once
from podwright.engine.view import pod_answers
from podwright.engine.view.pod_answers import PodAnswers
from podwright.simulator.explain.from_operator import from_answer, joined
from podwright.simulator.explain.results import Explanation, PodState
from support.engine.kit import Rig, deciding, on_node, settle
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.objects.builders import in_group, make_pod, make_pod_group
from support.steps import run_steps


def answers_of(rig):
    engine = rig.engine
    return PodAnswers(
        engine.queue,
        engine.cache,
        policies=engine.policies,
        decisions=engine.decisions,
        clock=rig.steady,
        waits=Waits(),
    )


def about(rig, name, namespace="default"):
    return at_once(answers_of(rig).about(namespace, name))


def test_an_unknown_pod_has_no_answer():
    assert about(Rig(), "web") == {}


def test_an_active_pod_says_how_many_are_before_it():
    rig = Rig()
    for number in range(3):
        rig.pod(f"p{number}", priority=10)
    rig.pod("web")
    rig.pod("last")
    queue = about(rig, "web")["queue"]
    assert (queue["place"], queue["ahead"], queue["triedIn"], queue["attempts"]) == ("active", 3, 0.0, 0)


async def test_a_rejected_pod_says_by_whom_and_when_it_is_tried_at_the_latest():
    rig = Rig()
    rig.node("a", unschedulable=True)
    rig.pod("web")
    async with deciding(rig):
        rig.now += 100.0
        found = about(rig, "web")
    assert found["queue"] == {
        "place": "unschedulable",
        "attempts": 1,
        "waited": 100.0,
        "triedIn": 230.0,
        "rejectedBy": ["NodeUnschedulable"],
    }
    (decision,) = found["decisions"]
    assert decision["reasons"] == {"NodeUnschedulable": {"node(s) were unschedulable": 1}}
    assert decision["policy"] == {"name": "built-in-default", "generation": 0}
    assert found["policy"] == {"name": "built-in-default", "generation": 0}


def test_a_pod_in_backoff_says_until_when():
    rig = Rig()
    rig.pod("web")
    rig.engine.queue.fault(rig.engine.queue.pop())
    queue = about(rig, "web")["queue"]
    assert (queue["place"], queue["triedIn"], queue["attempts"]) == ("backoff", 2.0, 1)


def test_a_gated_pod_names_the_plugin():
    rig = Rig()
    rig.pod("web", spec={"schedulingGates": [{"name": "example.com/hold"}]})
    queue = about(rig, "web")["queue"]
    assert (queue["place"], queue["gatedBy"]) == ("gated", "SchedulingGates")
    assert "triedIn" not in queue


def test_a_pod_of_a_workload_says_how_many_of_its_pods_there_are():
    rig = GroupedRig()
    rig.node("n")
    rig.group(grouping(kind="RayCluster", api_version="ray.io/v1", minCount="3"))
    llm = owner("llm", kind="RayCluster", api_version="ray.io/v1")
    rig.put(pod_of(llm, "web"))
    assert about(rig, "web")["queue"]["workload"] == "waiting for RayCluster default/llm, the owner of the pod"
    rig.own(llm)
    rig.engine.workloads.step()
    rig.engine.assigned.put(on_node(pod_of(llm, "head"), "n"))
    found = about(rig, "web")
    expected = "RayCluster default/llm: 1 of 3 pods that start together have a node, 2 exist"
    assert found["queue"]["workload"] == expected
    explained = from_answer(found, "default", "web")
    assert explained.causes[0].text == f"it waits with its workload: {expected}"
    fits = Explanation(kind="Pod", name="default/web", state=PodState.FITS)
    assert joined(fits, found).causes[0].reason == "Workload"


def test_a_pod_in_a_hierarchy_of_groups_says_so_of_all_its_pods():
    rig = Rig()
    metadata = {
        "name": "top",
        "namespace": "default",
        "uid": "t",
        "ownerReferences": [{"kind": "JobSet", "name": "train"}],
    }
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    rig.engine.objects(COMPOSITE_KIND).put({"metadata": metadata, "spec": policy})
    rig.engine.objects(KIND).put(make_pod_group("gang", 2, parentCompositePodGroupName="top"))
    rig.pod("web", spec=in_group())
    assert about(rig, "web")["queue"]["workload"] == (
        "JobSet default/train: 0 of 2 pods that start together have a node, 1 exist"
    )


async def test_pods_of_other_namespaces_are_not_named():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "2"})
    for namespace in ("default", "secret"):
        rig.engine.assigned.put(make_pod("low", namespace=namespace, node="a", requests={"cpu": "1"}))
    rig.pod("web", priority=10, requests={"cpu": "2"})
    async with deciding(rig):
        found = about(rig, "web")
    assert found["nominated"] == "a"
    assert (found["decisions"][0]["victims"], found["decisions"][0]["victimCount"]) == (["default/low"], 2)
    assert "secret" not in repr(found)


async def test_a_placed_pod_keeps_its_decision():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        found = about(rig, "web")
    assert "queue" not in found
    assert (found["decisions"][0]["outcome"], found["decisions"][0]["node"]) == ("Placed", "a")


def test_a_step_looks_at_a_bounded_number_of_pods(monkeypatch):
    monkeypatch.setattr(pod_answers, "PODS_A_STEP", 10)
    rig = Rig()
    for number in range(95):
        rig.pod(f"p{number}", priority=10)
    rig.pod("web")
    answer, steps = run_steps(answers_of(rig).about("default", "web"))
    assert steps == 9 + 9
    assert answer["queue"]["ahead"] == 95


async def test_a_waiting_pod_keeps_its_reason_when_newer_decisions_have_displaced_it():
    rig = Rig()
    rig.node("a", unschedulable=True)
    raw = rig.pod("web")
    async with deciding(rig):
        message = about(rig, "web")["decisions"][0]["message"]
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        rig.engine.pending.put({**raw, "status": {"conditions": [condition]}})
        for number in range(1000):
            rig.pod(f"later{number}")
        await settle()
        (written,) = about(rig, "web")["decisions"]
    assert len(rig.engine.decisions.of("default/web")) == 0, "the decision was displaced"
    assert written == {
        "outcome": "Rejected",
        "message": message,
        "policy": {"name": "built-in-default", "generation": 0},
    }
