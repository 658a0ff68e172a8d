"""What a pod takes from its node, what it waits for, and what scoring assumes of it."""

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.resources import Requests, is_extended_resource, is_qualified_name, is_scalar_resource
from support.objects.builders import make_pod

MI = 2**20
GI = 2**30
RESIZED = "containerStatuses"


def container(name="main", restart=None, **requests):
    made = {"name": name, "resources": {"requests": {k.replace("_", "-"): v for k, v in requests.items()}}}
    return made | ({"restartPolicy": restart} if restart else {})


def in_status(name="main", allocated=None, actuated=None):
    found = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = allocated
    if actuated is not None:
        found["resources"] = {"requests": actuated}
    return found


def pending_resize(reason):
    return [{"type": "Ready", "status": "True"}, {"type": "PodResizePending", "status": "True", "reason": reason}]


def requests(spec, status=None) -> Requests:
    return parse_pod(make_pod(spec=spec, status=status)).requests


@pytest.mark.parametrize(
    "spec, amounts",
    [
        pytest.param(
            {"containers": [container(cpu="100m", memory="1Mi"), container(cpu="1", memory="1M")]},
            {"cpu": 1100, "memory": MI + 10**6},
            id="containers run together and are summed",
        ),
        pytest.param(
            {"containers": [container(cpu="100u"), container(cpu="100u")]},
            {"cpu": 1},
            id="amounts are summed exactly and rounded up once for the pod",
        ),
        pytest.param(
            {"containers": [container(memory="100m"), container(memory="0.2")]},
            {"memory": 1},
            id="parts of a byte are rounded up once for the pod",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
            {"cpu": 3000},
            id="init containers run one after the other, so the largest counts where it exceeds the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi")],
                "initContainers": [container(cpu="2"), container(memory="10Mi")],
            },
            {"cpu": 2000, "memory": GI},
            id="the largest is taken resource by resource",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="2", restart="Always")]},
            {"cpu": 3000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2", restart="Always"), container(cpu="2")],
            },
            {"cpu": 4000},
            id="an init container runs beside the sidecars started before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="3500m"), container(cpu="2", restart="Always")],
            },
            {"cpu": 3500},
            id="an init container does not run beside the sidecars started after it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": 1250, "memory": 64 * MI},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi"), container()],
                "resources": {"requests": {"cpu": "3"}},
                "overhead": {"cpu": "100m"},
            },
            {"cpu": 3100, "memory": GI},
            id="pod-level requests replace the sum of the containers, before overhead",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "resources": {"requests": {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}},
            },
            {"cpu": 1000, "hugepages-2Mi": 4 * MI},
            id="of pod-level requests only CPU, memory and huge pages count",
        ),
        pytest.param(
            {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]},
            {},
            id="limits are no requests",
        ),
        pytest.param(
            {
                "containers": [
                    {
                        "name": "main",
                        "resources": {
                            "requests": {
                                "ephemeral-storage": "1Gi",
                                "example.com/gpu": "2",
                                "attachable-volumes-x": "1",
                                "pods": "5",
                                "apples": "7",
                            }
                        },
                    }
                ]
            },
            {"ephemeral-storage": GI, "example.com/gpu": 2, "attachable-volumes-x": 1},
            id="resources that the scheduler does not know are left out",
        ),
    ],
)
def test_a_pod_takes_and_waits_for_the_same_while_nothing_is_resized(spec, amounts):
    found = requests(spec)
    assert found.amounts == amounts
    assert dict(found.asked) == {name: amount for name, amount in amounts.items() if amount}


def test_amounts_of_0_are_kept_but_not_waited_for():
    found = requests({"containers": [container(cpu="0", memory="1Mi")]})
    assert found.amounts == {"cpu": 0, "memory": MI}
    assert found.asked == (("memory", MI),)


def test_what_is_waited_for_is_listed_as_it_is_reported():
    wanted = {"z.example.com/x": "1", "hugepages-2Mi": "2Mi", "ephemeral-storage": "1", "memory": "1", "cpu": "1"}
    found = requests({"containers": [{"name": "main", "resources": {"requests": wanted}}]})
    assert [name for name, _ in found.asked] == [
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "z.example.com/x",
    ]


@pytest.mark.parametrize(
    "spec, status, cpu, asked",
    [
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "3"}, actuated={"cpu": "2"})]},
            3000,
            1000,
            id="a pod that shrinks takes what is allocated until the kubelet gives it back",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "1"}, actuated={"cpu": "2"})]},
            2000,
            1000,
            id="a pod that shrinks takes what is in force where that is the most",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [in_status(allocated={"cpu": "3"}, actuated={"cpu": "2"})]},
            4000,
            4000,
            id="a pod that grows takes what it asks before it has it",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {
                RESIZED: [in_status(allocated={"cpu": "2"}, actuated={"cpu": "3"})],
                "conditions": pending_resize("Infeasible"),
            },
            3000,
            4000,
            id="an infeasible resize takes only what the pod has",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [in_status(allocated={"cpu": "2"})], "conditions": pending_resize("Deferred")},
            4000,
            4000,
            id="a deferred resize takes what the pod asks",
        ),
        pytest.param(
            {"containers": [container("a", cpu="3"), container("b", cpu="1")]},
            {RESIZED: [in_status("a", {"cpu": "1"}, {"cpu": "1"}), in_status("b", {"cpu": "2"}, {"cpu": "2"})]},
            4000,
            4000,
            id="the sums of the pod are compared, not its containers one by one",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1"), container("b", cpu="1")]},
            {RESIZED: [in_status("a", {"cpu": "3"})]},
            4000,
            2000,
            id="a container without a status counts as it asks",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [{"name": "main", "ready": True}], "conditions": pending_resize("Infeasible")},
            0,
            4000,
            id="an infeasible resize of a container that has nothing takes nothing",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "2"}), in_status(allocated={"cpu": "3"})]},
            2000,
            1000,
            id="of two statuses of one container the first counts",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("side", cpu="1", restart="Always")]},
            {"initContainerStatuses": [in_status("side", {"cpu": "2"}, {"cpu": "2"})]},
            3000,
            2000,
            id="sidecars are resized, too",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {
                "allocatedResources": {"cpu": "5"},
                "resources": {"requests": {"cpu": "4"}},
                RESIZED: [in_status(allocated={"cpu": "9"})],
            },
            5000,
            1000,
            id="the pod's own status replaces the sums of its containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {"allocatedResources": {"cpu": "5"}, RESIZED: [in_status(allocated={"cpu": "3"})]},
            3000,
            1000,
            id="one half of the pod's own status does not",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}},
            4000,
            2000,
            id="pod-level requests being resized count with the greatest of the three",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "9"}}},
            {
                "resources": {"requests": {"cpu": "3"}},
                "allocatedResources": {"cpu": "4"},
                "conditions": pending_resize("Infeasible"),
            },
            4000,
            9000,
            id="an infeasible resize of pod-level requests takes only what the pod has",
        ),
    ],
)
def test_a_pod_being_resized_takes_the_most_of_what_it_asks_and_has(spec, status, cpu, asked):
    found = requests(spec, status)
    assert found.amounts.get("cpu", 0) == cpu
    assert dict(found.asked)["cpu"] == asked


@pytest.mark.parametrize(
    "spec, placed, pending",
    [
        pytest.param(
            {"containers": [container(), container()]},
            (200, 400 * MI),
            (200, 400 * MI),
            id="each container that requests nothing counts 100m and 200Mi",
        ),
        pytest.param(
            {"containers": [container(cpu="0", memory="0")]},
            (0, 0),
            (0, 0),
            id="a request of 0 is a request",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(memory="1Gi")]},
            (1000, GI),
            (1000, GI),
            id="init containers have the defaults, too",
        ),
        pytest.param(
            {"containers": [container(cpu="1"), container()], "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
            (3000, GI),
            (1100, 400 * MI),
            id="pod-level requests leave no defaults on the node, and are not seen in a waiting pod",
        ),
        pytest.param(
            {"containers": [container(cpu="1"), container()], "resources": {"requests": {"memory": "1Gi"}}},
            (1000, GI),
            (1100, 400 * MI),
            id="with pod-level requests a resource that any container requests has no defaults on the node",
        ),
        pytest.param(
            {"containers": [container(), container()], "resources": {"requests": {"memory": "1Gi"}}},
            (200, GI),
            (200, 400 * MI),
            id="with pod-level requests a resource that nobody requests has the defaults",
        ),
        pytest.param(
            {"containers": [container()], "overhead": {"cpu": "50m"}},
            (150, 200 * MI),
            (150, 200 * MI),
            id="overhead comes on top of the defaults",
        ),
    ],
)
def test_scoring_assumes_something_of_containers_that_request_nothing(spec, placed, pending):
    found = requests(spec)
    assert (found.scoring_cpu, found.scoring_memory) == placed
    assert (found.pending["cpu"], found.pending["memory"]) == pending


def test_scoring_of_a_waiting_pod_does_not_look_at_its_status():
    found = requests({"containers": [container(cpu="1")]}, {RESIZED: [in_status(allocated={"cpu": "3"})]})
    assert found.pending["cpu"] == 1000
    assert found.scoring_cpu == 3000


@pytest.mark.parametrize(
    "spec, status, where",
    [
        pytest.param(
            {"containers": [container(cpu="much")]}, {}, "spec.containers[0].resources.requests[cpu]", id="no quantity"
        ),
        pytest.param(
            {"containers": [container(cpu="-1")]}, {}, "spec.containers[0].resources.requests[cpu]", id="negative"
        ),
        pytest.param(
            {"containers": [container()], "initContainers": [container(memory="1 Gi")]},
            {},
            "spec.initContainers[0].resources.requests[memory]",
            id="no quantity in an init container",
        ),
        pytest.param(
            {"containers": [container()], "overhead": {"cpu": {}}},
            {},
            "spec.overhead[cpu]",
            id="overhead that is no quantity",
        ),
        pytest.param(
            {"containers": [{"resources": [1]}]}, {}, "spec.containers.resources", id="resources that are a list"
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"cpu": "x"}}},
            {},
            "spec.resources.requests[cpu]",
            id="pod level",
        ),
        pytest.param(
            {"containers": [container()]},
            {RESIZED: [in_status(allocated={"cpu": "?"})]},
            "status of container main.allocatedResources[cpu]",
            id="no quantity in a status",
        ),
    ],
)
def test_what_does_not_parse_is_refused_with_its_place(spec, status, where):
    with pytest.raises(InvalidObjectError) as caught:
        requests(spec, status)
    assert caught.value.where == where
    assert str(caught.value).startswith("Pod default/pod: ")


def test_absurd_amounts_are_held_to_the_greatest_int64():
    found = requests({"containers": [container(cpu="9E", memory="99999999999999999999"), container(memory="9E")]})
    assert found.amounts == {"cpu": 2**63 - 1, "memory": 2**63 - 1}


def test_an_integer_beyond_64_bits_is_a_quantity_like_any_other():
    assert requests({"containers": [container(memory=10**25)]}).amounts == {"memory": 2**63 - 1}


def test_equal_requests_are_one_object_however_they_came_about():
    template = {"containers": [container(cpu="100m", memory="1Gi")]}
    running = {
        RESIZED: [in_status(allocated={"memory": "1Gi", "cpu": "0.1"}, actuated={"cpu": "100m", "memory": "1Gi"})]
    }
    assert requests(template) is requests({"containers": [container(memory="1024Mi", cpu="0.1")]})
    assert requests(template) is requests(template, running)
    assert requests(template) is not requests({"containers": [container(cpu="100m")]})


@pytest.mark.parametrize(
    "name, extended, scalar",
    [
        pytest.param("example.com/gpu", True, True, id="a domain of somebody's own"),
        pytest.param("hugepages-1Gi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-aws-ebs", False, True, id="attachable volumes"),
        pytest.param("kubernetes.io/batteries", False, True, id="Kubernetes' own domain"),
        pytest.param("requests.example.com/gpu", False, False, id="a quota's name"),
        pytest.param("cpu", False, False, id="CPU"),
        pytest.param("apples", False, False, id="no domain"),
        pytest.param("Example.com/gpu", False, False, id="a domain in capitals"),
        pytest.param("example.com/" + "x" * 64, False, False, id="a name of 64 characters"),
    ],
)
def test_resource_names_tell_the_kind(name, extended, scalar):
    assert is_extended_resource(name) is extended
    assert is_scalar_resource(name) is scalar


@pytest.mark.parametrize(
    "name, valid",
    [
        pytest.param("a", True, id="one letter"),
        pytest.param("A.b_c-9", True, id="dots, dashes and underscores inside"),
        pytest.param("a.b/c", True, id="a domain"),
        pytest.param("-a", False, id="a dash in front"),
        pytest.param("/a", False, id="an empty domain"),
        pytest.param("a/", False, id="an empty name"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("a..b/c", False, id="an empty part of the domain"),
        pytest.param("", False, id="nothing"),
        pytest.param("a\n", False, id="a line break"),
    ],
)
def test_qualified_names_are_those_of_labels(name, valid):
    assert is_qualified_name(name) is valid
