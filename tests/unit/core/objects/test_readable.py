"""The readable parts of an assigned pod and of a node count, and each unreadable part is named."""

from unittest import mock

import pytest

from podwright.core.objects import pod as pod_module
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import MANY_IMAGES, ManyImages, parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.raw import MAX_PROBLEMS
from podwright.core.objects.readable import parse_assigned_pod, parse_known_node
from support.objects.builders import make_node, make_pod, make_taint

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
PARTS = {
    "containers": [
        {
            "name": "main",
            "image": "app",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}},
            "ports": [{"hostPort": 80}, {"hostPort": 443, "hostIP": "127.0.0.1"}],
        },
        {"name": "second", "resources": {"requests": {"cpu": "500m"}}},
    ],
    "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
    "overhead": {"memory": "1Mi"},
    "priority": 7,
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"zone": "a"},
    "affinity": {"podAntiAffinity": {REQUIRED: [TERM]}, "podAffinity": {REQUIRED: [TERM]}},
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "schedulingGroup": {"podGroupName": "group"},
}
STATUS = {"phase": "Running", "startTime": "2024-01-01T00:00:00Z"}


def assigned(spec=None, status=None, metadata=None):
    return make_pod(
        "web",
        node="a",
        labels={"app": "web", "tier": "front"},
        spec={**PARTS, **(spec or {})},
        status={**STATUS, **(status or {})},
        metadata=metadata,
    )


WHOLE = parse_pod(assigned())


def counted(pod):
    return dict(pod.requests.amounts), {port.port for port in pod.ports}


def with_container(**fields):
    return assigned({"containers": [{**PARTS["containers"][0], **fields}, PARTS["containers"][1]]})


def test_a_valid_pod_has_no_problems():
    pod, problems = parse_assigned_pod(assigned())
    assert not problems
    assert counted(pod) == ({"cpu": 1600, "memory": (1 << 30) + (1 << 20), "example.com/gpu": 2}, {80, 443})


@pytest.mark.parametrize(
    "raw, where, lost",
    [
        pytest.param(
            assigned({"affinity": {"podAntiAffinity": {REQUIRED: "x"}, "podAffinity": {REQUIRED: [TERM]}}}),
            f"spec.affinity.podAntiAffinity.{REQUIRED}",
            {"pod_affinity"},
            id="anti-affinity that is text",
        ),
        pytest.param(
            assigned({"tolerations": [{"operator": "Near"}]}),
            "spec.tolerations[0].operator",
            {"tolerations"},
            id="tolerations",
        ),
        pytest.param(
            assigned({"topologySpreadConstraints": [{"maxSkew": 1}]}),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            set(),
            id="spread constraints",
        ),
        pytest.param(assigned({"priority": "high"}), "spec.priority", {"priority"}, id="the priority"),
        pytest.param(assigned({"volumes": [{"rbd": "x"}]}), "spec.volumes[0].rbd", {"volumes"}, id="volumes"),
        pytest.param(
            assigned({"schedulingGroup": {"podGroupName": 1}}),
            "spec.schedulingGroup.podGroupName",
            {"group"},
            id="the group",
        ),
        pytest.param(
            assigned(status={"startTime": "0000-12-31T10:00:00Z"}),
            "status.startTime",
            {"start_time"},
            id="the start time",
        ),
        pytest.param(
            assigned(metadata={"creationTimestamp": "now"}),
            "metadata.creationTimestamp",
            {"creation"},
            id="the creation time",
        ),
        pytest.param(
            assigned(status={"containerStatuses": "x"}), "status.containerStatuses", set(), id="container statuses"
        ),
    ],
)
def test_a_part_that_cannot_be_read_hides_no_other(raw, where, lost):
    pod, (problem,) = parse_assigned_pod(raw)
    assert (problem.kind, problem.name, problem.where) == ("Pod", "default/web", where)
    assert counted(pod) == counted(WHOLE)
    for field in (
        "labels",
        "node_name",
        "phase",
        "node_affinity",
        "pod_affinity",
        "tolerations",
        "priority",
        "group",
        "volumes",
    ):
        assert (getattr(pod, field) == getattr(WHOLE, field)) is (field not in lost), field
    if "pod_affinity" in lost:
        assert (len(pod.pod_affinity.required), len(pod.pod_affinity.anti_required)) == (1, 0)


@pytest.mark.parametrize(
    "raw, where, amounts, ports",
    [
        pytest.param(
            with_container(resources={"requests": {"cpu": "1", "memory": "much", "example.com/gpu": "2"}}),
            "spec.containers[0].resources.requests[memory]",
            {"cpu": 1600, "memory": 1 << 20, "example.com/gpu": 2},
            {80, 443},
            id="one amount",
        ),
        pytest.param(
            with_container(resources={"requests": {"cpu": "1", "memory": "-1Gi", "example.com/gpu": "2"}}),
            "spec.containers[0].resources.requests[memory]",
            {"cpu": 1600, "memory": 1 << 20, "example.com/gpu": 2},
            {80, 443},
            id="a negative amount",
        ),
        pytest.param(
            with_container(ports=[{"hostPort": 80}, {"hostPort": 70000}, {"hostPort": 443}]),
            "spec.containers[0].ports[1].hostPort",
            {"cpu": 1600, "memory": (1 << 30) + (1 << 20), "example.com/gpu": 2},
            {80, 443},
            id="one port",
        ),
        pytest.param(
            assigned({"containers": [*PARTS["containers"], "another"]}),
            "spec.containers[2]",
            {"cpu": 1600, "memory": (1 << 30) + (1 << 20), "example.com/gpu": 2},
            {80, 443},
            id="one container",
        ),
        pytest.param(
            assigned({"overhead": "some"}),
            "spec.overhead",
            {"cpu": 1600, "memory": 1 << 30, "example.com/gpu": 2},
            {80, 443},
            id="the overhead",
        ),
    ],
)
def test_amounts_and_ports_are_read_one_by_one(raw, where, amounts, ports):
    pod, (problem,) = parse_assigned_pod(raw)
    assert problem.where == where
    assert counted(pod) == (amounts, ports)
    assert (pod.priority, pod.group, pod.labels) == (7, WHOLE.group, WHOLE.labels)


def test_labels_are_read_one_by_one():
    raw = assigned()
    raw["metadata"]["labels"] = {"app": "web", "tier": 1}
    pod, (problem,) = parse_assigned_pod(raw)
    assert dict(pod.labels) == {"app": "web"}
    assert problem.where == "metadata.labels[tier]"


def test_a_fault_of_the_parser_itself_hides_no_capacity():
    with mock.patch.object(pod_module, "parse_tolerations", side_effect=RecursionError("deep")):
        pod, problems = parse_assigned_pod(assigned({"tolerations": [{"operator": "Exists", "key": "own"}]}))
    assert counted(pod) == counted(WHOLE)
    assert [str(problem) for problem in problems] == ["Pod default/web: spec.tolerations: RecursionError: deep"]


def test_the_problems_of_one_object_are_bounded():
    requests = {f"example.com/{number}": "x" for number in range(1000)}
    pod, problems = parse_assigned_pod(with_container(resources={"requests": {**requests, "cpu": "2"}}))
    assert pod.requests.amounts["cpu"] == 2600
    assert len(problems) == MAX_PROBLEMS


@pytest.mark.parametrize("parse", [parse_assigned_pod, parse_known_node])
@pytest.mark.parametrize("metadata", [None, {}, {"name": ""}, "text"])
def test_an_object_without_a_name_cannot_count(parse, metadata):
    with pytest.raises(InvalidObjectError, match="metadata"):
        parse({"metadata": metadata, "spec": {}})


def test_what_can_be_read_of_a_node_is_read():
    raw = make_node("a", labels={"zone": "z"}, taints=[make_taint("k")], unschedulable=True, allocatable={"gpu": "1"})
    whole = parse_node(raw)
    raw["metadata"]["labels"]["bad"] = 1
    raw["spec"]["taints"].append({"key": "bad", "effect": "Sometimes"})
    raw["status"] |= {
        "images": "none",
        "declaredFeatures": ["one"],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    raw["status"]["allocatable"] |= {"bad": "x", "negative": "-1"}
    node, problems = parse_known_node(raw)
    assert [problem.where for problem in problems] == [
        "metadata.labels[bad]",
        "spec.taints[1].effect",
        "status.allocatable[bad]",
        "status.allocatable[negative]",
        "status.images",
    ]
    assert (node.labels, node.taints, node.unschedulable) == (whole.labels, whole.taints, True)
    assert (node.allocatable, node.declared_features) == (whole.allocatable, {"one"})
    assert node.conditions == {"Ready": "True"}


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        pytest.param("cpu", "9223372036854775", 9223372036854775000, id="the most CPU in whole cores"),
        pytest.param("cpu", "9223372036854776", None, id="a core more"),
        pytest.param("cpu", "1E", None, id="CPU with a great suffix"),
        pytest.param("cpu", "9223372036854775807", None, id="CPU as int64"),
        pytest.param("cpu", "8Ei", None, id="CPU with a binary suffix"),
        pytest.param("memory", "1E", 10**18, id="memory with a great suffix"),
        pytest.param("memory", "9223372036854775807", 2**63 - 1, id="the most memory"),
        pytest.param("memory", "10E", None, id="more memory"),
        pytest.param("memory", "16Ei", 2**63 - 1, id="binary amounts are capped"),
        pytest.param("example.com/gpu", 10**19, None, id="a number"),
    ],
)
def test_an_amount_that_kube_scheduler_cannot_count_is_none_and_is_named(resource, value, expected):
    """The expected amounts are those of its `Quantity`, where an overflow gives 0 or less."""
    node, problems = parse_known_node(make_node("a", allocatable={resource: value}))
    assert node.allocatable.get(resource) == expected
    named = [(problem.where, f"is more than {2**63 - 1}" in problem.problem) for problem in problems]
    assert named == ([] if expected else [(f"status.allocatable[{resource}]", True)])


def test_many_images_of_a_node_are_a_map_like_few():
    names = [f"registry.example/app-{number * 7919 % 1000}:v1" for number in range(MANY_IMAGES + 1)]
    raw = make_node("a", images=[{"names": [name, "shared"], "sizeBytes": i} for i, name in enumerate(names)])
    images, few = parse_node(raw).images, dict(zip(names, range(len(names)), strict=True)) | {"shared": 0}
    assert isinstance(images, ManyImages)
    assert dict(images) == few
    assert all(images[name] == size for name, size in few.items())
    assert [name for name in ("", "registry.example/app-1", "zzz") if name in images] == []
    assert images == parse_node(raw).images
    raw["status"]["images"][0]["sizeBytes"] = 9
    assert images != parse_node(raw).images
