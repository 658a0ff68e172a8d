"""A pod's requests: those that count on its node, those of its spec, and those that scoring uses."""

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
            id="fractions of a byte are rounded up once for the pod",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
            {"cpu": 3000},
            id="init containers run one after another, so the largest counts if it exceeds the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi")],
                "initContainers": [container(cpu="2"), container(memory="10Mi")],
            },
            {"cpu": 2000, "memory": GI},
            id="the maximum is taken for each resource",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="2", restart="Always")]},
            {"cpu": 3000},
            id="a sidecar runs alongside the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="2", restart="Always"), container(cpu="2")],
            },
            {"cpu": 4000},
            id="an init container runs alongside the sidecars started before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="3500m"), container(cpu="2", restart="Always")],
            },
            {"cpu": 3500},
            id="an init container does not run alongside the sidecars started after it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": 1250, "memory": 64 * MI},
            id="overhead is added",
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
            id="pod-level requests count only for CPU, memory and huge pages",
        ),
        pytest.param(
            {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]},
            {},
            id="limits are not requests",
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
            id="unknown resources are ignored",
        ),
    ],
)
def test_spec_and_node_requests_agree_unless_the_pod_is_resized(spec, amounts):
    found = requests(spec)
    assert found.amounts == amounts
    assert dict(found.spec_requests) == {name: amount for name, amount in amounts.items() if amount}


def test_requests_of_0_count_on_the_node_but_need_no_free_resources():
    found = requests({"containers": [container(cpu="0", memory="1Mi")]})
    assert found.amounts == {"cpu": 0, "memory": MI}
    assert found.spec_requests == (("memory", MI),)


def test_spec_requests_are_in_the_order_of_reasons():
    resources = {"z.example.com/x": "1", "hugepages-2Mi": "2Mi", "ephemeral-storage": "1", "memory": "1", "cpu": "1"}
    found = requests({"containers": [{"name": "main", "resources": {"requests": resources}}]})
    assert [name for name, _ in found.spec_requests] == [
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "z.example.com/x",
    ]


@pytest.mark.parametrize(
    "spec, status, cpu, spec_cpu",
    [
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "3"}, actuated={"cpu": "2"})]},
            3000,
            1000,
            id="a shrinking pod takes its allocated resources until the kubelet releases them",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "1"}, actuated={"cpu": "2"})]},
            2000,
            1000,
            id="a shrinking pod takes its actual resources if they are the greatest",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [in_status(allocated={"cpu": "3"}, actuated={"cpu": "2"})]},
            4000,
            4000,
            id="a growing pod takes the requests of its spec before they are allocated",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {
                RESIZED: [in_status(allocated={"cpu": "2"}, actuated={"cpu": "3"})],
                "conditions": pending_resize("Infeasible"),
            },
            3000,
            4000,
            id="an infeasible resize ignores the spec",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [in_status(allocated={"cpu": "2"})], "conditions": pending_resize("Deferred")},
            4000,
            4000,
            id="a deferred resize takes the requests of the spec",
        ),
        pytest.param(
            {"containers": [container("a", cpu="3"), container("b", cpu="1")]},
            {RESIZED: [in_status("a", {"cpu": "1"}, {"cpu": "1"}), in_status("b", {"cpu": "2"}, {"cpu": "2"})]},
            4000,
            4000,
            id="the maximum is taken of the sums over the pod, not for each container",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1"), container("b", cpu="1")]},
            {RESIZED: [in_status("a", {"cpu": "3"})]},
            4000,
            2000,
            id="a container without a status counts with its spec",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {RESIZED: [{"name": "main", "ready": True}], "conditions": pending_resize("Infeasible")},
            0,
            4000,
            id="an infeasible resize of a container without allocated resources takes nothing",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {RESIZED: [in_status(allocated={"cpu": "2"}), in_status(allocated={"cpu": "3"})]},
            2000,
            1000,
            id="the first of two statuses of one container applies",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("side", cpu="1", restart="Always")]},
            {"initContainerStatuses": [in_status("side", {"cpu": "2"}, {"cpu": "2"})]},
            3000,
            2000,
            id="sidecars can be resized",
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
            id="allocated and actual resources of the pod replace the sums of its containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1")]},
            {"allocatedResources": {"cpu": "5"}, RESIZED: [in_status(allocated={"cpu": "3"})]},
            3000,
            1000,
            id="allocated resources of the pod alone replace nothing",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}},
            4000,
            2000,
            id="resized pod-level requests count with the greatest of the three versions",
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
            id="an infeasible resize of pod-level requests ignores the spec",
        ),
    ],
)
def test_a_pod_being_resized_takes_the_greatest_version_of_its_requests(spec, status, cpu, spec_cpu):
    found = requests(spec, status)
    assert found.amounts.get("cpu", 0) == cpu
    assert dict(found.spec_requests)["cpu"] == spec_cpu


@pytest.mark.parametrize(
    "spec, placed, of_pending",
    [
        pytest.param(
            {"containers": [container(), container()]},
            (200, 400 * MI),
            (200, 400 * MI),
            id="each container without requests counts 100m and 200Mi",
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
            id="init containers have defaults",
        ),
        pytest.param(
            {"containers": [container(cpu="1"), container()], "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
            (3000, GI),
            (1100, 400 * MI),
            id="pod-level requests replace the defaults of a placed pod and are ignored for a pending one",
        ),
        pytest.param(
            {"containers": [container(cpu="1"), container()], "resources": {"requests": {"memory": "1Gi"}}},
            (1000, GI),
            (1100, 400 * MI),
            id="with pod-level requests, a resource that any container requests has no default for a placed pod",
        ),
        pytest.param(
            {"containers": [container(), container()], "resources": {"requests": {"memory": "1Gi"}}},
            (200, GI),
            (200, 400 * MI),
            id="with pod-level requests, a resource that no container requests has the default",
        ),
        pytest.param(
            {"containers": [container()], "overhead": {"cpu": "50m"}},
            (150, 200 * MI),
            (150, 200 * MI),
            id="overhead is added to the defaults",
        ),
    ],
)
def test_scoring_assumes_defaults_for_containers_without_requests(spec, placed, of_pending):
    found = requests(spec)
    assert (found.scoring_cpu, found.scoring_memory) == placed
    assert (found.spec_scoring["cpu"], found.spec_scoring["memory"]) == of_pending


def test_scoring_of_a_pending_pod_ignores_its_status():
    found = requests({"containers": [container(cpu="1")]}, {RESIZED: [in_status(allocated={"cpu": "3"})]})
    assert found.spec_scoring["cpu"] == 1000
    assert found.scoring_cpu == 3000


@pytest.mark.parametrize(
    "spec, status, where",
    [
        pytest.param(
            {"containers": [container(cpu="much")]},
            {},
            "spec.containers[0].resources.requests[cpu]",
            id="not a quantity",
        ),
        pytest.param(
            {"containers": [container(cpu="-1")]}, {}, "spec.containers[0].resources.requests[cpu]", id="negative"
        ),
        pytest.param(
            {"containers": [container()], "initContainers": [container(memory="1 Gi")]},
            {},
            "spec.initContainers[0].resources.requests[memory]",
            id="not a quantity in an init container",
        ),
        pytest.param(
            {"containers": [container()], "overhead": {"cpu": {}}},
            {},
            "spec.overhead[cpu]",
            id="overhead that is not a quantity",
        ),
        pytest.param(
            {"containers": [{"resources": [1]}]}, {}, "spec.containers.resources", id="resources that are a list"
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"cpu": "x"}}},
            {},
            "spec.resources.requests[cpu]",
            id="not a quantity at pod level",
        ),
        pytest.param(
            {"containers": [container()]},
            {RESIZED: [in_status(allocated={"cpu": "?"})]},
            "status of container main.allocatedResources[cpu]",
            id="not a quantity in a status",
        ),
    ],
)
def test_an_invalid_request_raises_an_error_with_the_pod_and_field(spec, status, where):
    with pytest.raises(InvalidObjectError) as caught:
        requests(spec, status)
    assert caught.value.where == where
    assert str(caught.value).startswith("Pod default/pod: ")


def test_amounts_are_capped_at_the_greatest_int64():
    found = requests({"containers": [container(cpu="9E", memory="99999999999999999999"), container(memory="9E")]})
    assert found.amounts == {"cpu": 2**63 - 1, "memory": 2**63 - 1}


def test_an_integer_beyond_64_bits_is_a_valid_quantity():
    assert requests({"containers": [container(memory=10**25)]}).amounts == {"memory": 2**63 - 1}


def test_equal_requests_from_different_sources_are_one_object():
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
        pytest.param("example.com/gpu", True, True, id="a custom domain"),
        pytest.param("hugepages-1Gi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-aws-ebs", False, True, id="attachable volumes"),
        pytest.param("kubernetes.io/batteries", False, True, id="the kubernetes.io domain"),
        pytest.param("requests.example.com/gpu", False, False, id="the name of a quota"),
        pytest.param("cpu", False, False, id="CPU"),
        pytest.param("apples", False, False, id="no domain"),
        pytest.param("Example.com/gpu", False, False, id="a domain in upper case"),
        pytest.param("example.com/" + "x" * 64, False, False, id="a name of 64 characters"),
    ],
)
def test_the_name_of_a_resource_defines_its_kind(name, extended, scalar):
    assert is_extended_resource(name) is extended
    assert is_scalar_resource(name) is scalar


@pytest.mark.parametrize(
    "name, valid",
    [
        pytest.param("a", True, id="one letter"),
        pytest.param("A.b_c-9", True, id="dots, dashes and underscores inside"),
        pytest.param("a.b/c", True, id="a domain"),
        pytest.param("-a", False, id="a leading dash"),
        pytest.param("/a", False, id="an empty domain"),
        pytest.param("a/", False, id="an empty name"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("a..b/c", False, id="an empty part of the domain"),
        pytest.param("", False, id="the empty string"),
        pytest.param("a\n", False, id="a line break"),
    ],
)
def test_qualified_names(name, valid):
    assert is_qualified_name(name) is valid
