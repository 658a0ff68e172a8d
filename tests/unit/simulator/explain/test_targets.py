import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.simulator.explain.results import PodState
from podwright.simulator.explain.targets import (
    TargetError,
    explain_selected,
    explain_target,
    parse_selector,
    parse_target,
)
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import NOT_SERVED, Snapshot
from support.explain.kit import GATES
from support.explain.objects import cluster, full, gang, member, node, waiting
from support.objects.queues import queue


def snapshot_of(given):
    return Snapshot(
        objects=[
            *given.groups,
            *({"kind": "Pod", **raw} for raw in given.objects["pods"]),
            *given.objects.get("others", ()),
        ]
    )


def explained(given, text, namespace="default"):
    return explain_target(given.load(), snapshot_of(given), parse_target(text, namespace), changes=False)


def owned_by(kind, name):
    reference = {"kind": kind, "name": name, "controller": True, "apiVersion": "apps/v1", "uid": name}
    return {"ownerReferences": [reference]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("web-0", "Pod"),
        ("po/web-0", "Pod"),
        ("Deploy/web-0", "Deployment"),
        ("jobs.batch/web-0", "Job"),
        ("job.batch/web-0", "Job"),
        ("deployments.v1.apps/web-0", "Deployment"),
        ("podgroup.scheduling.x-k8s.io/web-0", "PodGroup"),
    ],
)
def test_kinds_may_be_written_as_kubectl_takes_them(text, kind):
    target = parse_target(text, "team")
    assert (target.kind, target.namespace, target.name) == (kind, "team", "web-0")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pood/x", "did you mean 'pod'"),
        ("job.apps/x", "cannot be explained"),
        ("pod/", "expected KIND/NAME"),
        ("pod/a/b", "expected KIND/NAME"),
    ],
)
def test_a_wrong_target_is_named(text, says):
    with pytest.raises(TargetError, match=says):
        parse_target(text, "default")


@pytest.mark.parametrize(
    ("text", "namespace", "says"),
    [
        ("service/x", "default", "cannot be explained"),
        ("pod/waitin", "default", "did you mean 'waiting'"),
        ("pod/waiting", "team", "there is one in namespace default"),
        ("job/x", "default", "Job default/x is not in the cluster"),
    ],
)
def test_what_does_not_exist_is_said_with_what_is_near(text, namespace, says):
    with pytest.raises(TargetError, match=says):
        explained(cluster([node("one")], [waiting()]), text, namespace)


def test_a_job_shows_where_its_pods_are_and_why_the_others_wait():
    mine = owned_by("Job", "train")
    pods = [
        full("a", "one", metadata=mine),
        *(waiting(f"w{i}", requests={"cpu": "6"}, metadata=mine) for i in range(3)),
        waiting("x"),
    ]
    found = explained(cluster([node("one")], pods), "job/train")
    assert (found.pods, found.placed, found.waiting, found.nodes) == (4, 1, 3, {"one": 1})
    (cause,) = found.causes
    assert (cause.reason, cause.pods, cause.examples) == ("InsufficientResources", 3, ("w0", "w1", "w2"))
    assert found.first.name == "default/w0"


def test_a_deployment_owns_the_pods_of_its_replica_sets():
    pods = [
        waiting("a", metadata=owned_by("ReplicaSet", "web-1")),
        waiting("b", metadata=owned_by("ReplicaSet", "db-1")),
    ]
    given = cluster([node("one")], pods)
    replica_set = {
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "default", **owned_by("Deployment", "web")},
    }
    snapshot = Snapshot(objects=[*snapshot_of(given).objects, replica_set])
    found = explain_target(given.load(), snapshot, parse_target("deploy/web", "default"), changes=False)
    assert (found.pods, found.first.name) == (1, "default/a")


QUOTA = 'pods "web-1-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        pytest.param(True, f"its controller cannot create them: {QUOTA}", id="from the cluster"),
        pytest.param(False, "its controller cannot create them: FailedCreate, and a snapshot has no more of it", id="from a snapshot"),
    ],
)  # fmt: skip
def test_pods_that_a_controller_cannot_create_are_a_cause(messages, says):
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}
    available = {"type": "Available", "status": "False", "message": QUOTA}
    raw = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3}, "status": {"conditions": [available, condition]}}  # fmt: skip
    pods = [full("a", "one", metadata=owned_by("ReplicaSet", "web-1"))]
    given = cluster([node("one")], pods)
    snapshot = Snapshot(objects=[*snapshot_of(given).objects, redacted("Deployment", raw, messages=messages)])
    found = explain_target(given.load(), snapshot, parse_target("deploy/web", "default"), changes=False)
    (cause,) = found.causes
    assert (cause.reason, cause.pods, cause.text) == ("ReplicaFailure", 2, says)


def test_a_pod_group_shows_its_members():
    pods = [member(name, requests={"cpu": "6"}) for name in ("a", "b", "c")]
    found = explained(cluster([node("one"), node("two")], pods, groups=[gang(3)]), "podgroup/gang")
    assert (found.pods, found.waiting) == (3, 3)
    assert [(cause.reason, cause.pods) for cause in found.causes] == [("GangNoRoom", 3)]


def job_of_volcano(**spec):
    """Two pods that name it, and more specifically a group of an API that is not served."""
    metadata = {"annotations": {"scheduling.k8s.io/group-name": "job"}}
    pods = [waiting(name, labels={GROUP_LABEL: "train"}, metadata=metadata) for name in ("a", "b")]
    metadata = {"name": "job", "namespace": "default", "uid": "job"}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return cluster([node("one")], pods, [queue("x")], groups=[group])


def test_the_members_of_a_group_are_the_pods_for_which_it_counts():
    given = job_of_volcano(minMember=3, queue="x")
    for target in ("podgroup/job", "queue/x"):
        found = explained(given, target)
        assert (found.pods, [cause.reason for cause in found.causes]) == (2, ["GangTooSmall"])
    with pytest.raises(TargetError):
        explained(given, "podgroup/train")


def test_a_pod_that_cannot_be_read_keeps_no_group_of_another_namespace_from_being_explained():
    given = job_of_volcano(minMember=3)
    bad = {"kind": "Pod", "metadata": {"name": "bad", "namespace": "other", "uid": "bad"}, "spec": {"containers": 1}}
    snapshot = Snapshot(objects=[*snapshot_of(given).objects, bad])
    found = explain_target(given.load(), snapshot, parse_target("podgroup/job", "default"), changes=False)
    assert found.pods == 2


def test_a_composite_pod_group_shows_the_members_of_all_groups_below_it():
    top = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "llm", "namespace": "default", "uid": "llm"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 1}}},
    }
    pods = [member(name, requests={"cpu": "6"}) for name in ("a", "b", "c")]
    given = cluster([node("one"), node("two")], pods, groups=[top, gang(3, parentCompositePodGroupName="llm")])
    for target in ("compositepodgroup/llm", "podgroup/gang"):
        found = explained(given, target)
        assert (found.pods, found.waiting) == (3, 3)
        assert [(cause.reason, cause.pods) for cause in found.causes] == [("GangNoRoom", 3)]
        assert "its group default/llm needs room for 3 members at once" in found.causes[0].text


@pytest.mark.parametrize("spec", [{}, {"spec": None}])
def test_a_pod_without_a_spec_is_explained(spec):
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "default", "uid": "bare"},
        **spec,
    }
    given = cluster([node("one")], [bare])
    found = explain_target(given.load(), snapshot_of(given), parse_target("pod/bare", "default"))
    assert found.state is PodState.IGNORED
    assert [change.text for change in found.changes] == ["ask for the scheduler podwright instead of default-scheduler"]


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        pytest.param({}, "GroupMissing", id="the API is served"),
        pytest.param({"PodGroup.scheduling.k8s.io": NOT_SERVED}, "FitsNow", id="the API is not served"),
    ],
)
def test_a_pod_waits_for_a_group_that_does_not_exist_if_its_api_does(missing, reason):
    items = cluster([node("one")], [member("waiting")]).items()
    snapshot = Snapshot(objects=items, minor=37, missing=missing)
    loaded = load(snapshot, LoadOptions(features=GATES))
    assert explain_target(loaded, snapshot, parse_target("pod/waiting", "default")).cause.reason == reason


@pytest.mark.parametrize(
    ("namespace", "selector", "pods"),
    [
        ("", "", 4),
        ("shop", "", 1),
        ("", "app=web", 2),
        ("", "app==web,tier!=front", 1),
        ("", "app in (web, db),!tier", 2),
        ("", "app notin (web),app", 1),
        ("", "tier", 1),
    ],
)
def test_pods_are_selected_as_by_kubectl(namespace, selector, pods):
    given = cluster([node("one")], [
        waiting("a", labels={"app": "web", "tier": "front"}),
        waiting("b", labels={"app": "web"}),
        waiting("c", labels={"app": "db"}),
        waiting("d", namespace="shop"),
    ])  # fmt: skip
    found = explain_selected(given.load(), snapshot_of(given), namespace, selector, changes=False)
    assert (found.kind, found.pods, found.waiting) == ("Pods", pods, pods)


@pytest.mark.parametrize("selector", ["a b", "=x", "a in x", "a in (b", "a=b c"])
def test_a_wrong_selector_is_named(selector):
    with pytest.raises(TargetError, match="selector"):
        parse_selector(selector)
