"""The search for pods and groups: bounded, in steps, and only of namespaces that may be seen."""

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.process.steps import at_once
from podwright.engine.view import search as module
from podwright.engine.view.search import search
from podwright.engine.view.waiting import queued_pods
from support.engine.kit import Rig, on_node, ours
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.objects.builders import in_group, make_pod_group
from support.steps import run_steps


def rig_of():
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.node("a")
    rig.engine.objects(KIND).put(make_pod_group("train", 3))
    rig.engine.assigned.put(on_node(ours("train-0", spec=in_group("train")), "a"))
    rig.pod("train-1", spec=in_group("train"))
    rig.pod("web", namespace="other")
    return rig


def found(rig, text, shows=lambda _namespace: True):
    return at_once(search(rig.engine.cache, queued_pods(rig.engine.queue), text, shows))


def test_pods_and_groups_are_found_by_a_part_of_their_names():
    rig = rig_of()
    waits = {"namespace": "default", "name": "train-1", "place": "gated"}
    placed = {"namespace": "default", "name": "train-0", "node": "a"}
    answer = found(rig, "ault/tra")
    assert answer["pods"] == [waits, placed]
    (group,) = answer["groups"]
    assert group == {
        "namespace": "default",
        "name": "train",
        "minCount": 3,
        "placed": 1,
        "count": 2,
        "members": [placed, {"namespace": "default", "name": "train-1", "node": ""}],
    }
    assert [pod["name"] for pod in found(rig, "web")["pods"]] == ["web"]
    assert found(rig, "nothing") == {"pods": [], "groups": []}


def test_what_may_not_be_seen_is_not_found():
    assert found(rig_of(), "", lambda namespace: namespace == "other") == {
        "pods": [{"namespace": "other", "name": "web", "place": "active"}],
        "groups": [],
    }


def test_a_search_in_many_pods_pauses_and_ends_with_the_first(monkeypatch):
    monkeypatch.setattr(module, "PODS_A_STEP", 3)
    rig = rig_of()
    for number in range(100):
        rig.engine.assigned.put(on_node(ours(f"p{number}"), "a"))
        rig.pod(f"q{number}")
    _, steps = run_steps(search(rig.engine.cache, queued_pods(rig.engine.queue), "nothing", lambda _: True))
    assert steps >= 20
    assert len(found(rig, "default/")["pods"]) == module.MOST_FOUND


def test_a_gang_is_found_by_the_name_of_its_workload_and_called_so():
    rig = GroupedRig()
    cluster = owner("llm", api_version="ray.io/v1", kind="RayCluster", spec={})
    rig.group(grouping(api_version="ray.io/v1", kind="RayCluster", minCount="2"))
    rig.own(cluster)
    rig.put(pod_of(cluster, "head"))
    (group,) = found(rig, "raycluster default/l")["groups"]
    assert (group["name"], group["minCount"], group["count"]) == ("RayCluster default/llm", 2, 1)
