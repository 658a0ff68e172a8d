"""The workload files are valid, and yield the objects that they describe."""

from collections import Counter

import pytest
from benchmarks.__main__ import main
from benchmarks.workloads import SETS, Churn, CreateNodes, CreatePods, DeletePods, choose, load, numbered
from click.testing import CliRunner

ALL = {workload.title: workload for workload in load()}
REQUIRED = (
    "SchedulingBasic", "SchedulingNodeAffinity", "TopologySpreading", "PreferredTopologySpreading",
    "SchedulingPodAntiAffinity", "SchedulingPodAffinity", "SchedulingPreferredPodAffinity", "Unschedulable",
    "PreemptionBasic", "MixedSchedulingBasePod", "SchedulingWithMixedChurn", "SchedulingWhileGated",
    "SchedulingDaemonset", "SpreadZoneAndHostname", "PreferredSpreadZoneAndHostname",
)  # fmt: skip


def write(folder, text):
    (folder / "workload.yaml").write_text(text)
    return load(folder)


@pytest.mark.parametrize("name", REQUIRED)
def test_each_workload_has_sizes_in_the_smoke_and_full_sets(name):
    labels = set().union(*(workload.labels for workload in ALL.values() if workload.name == name))
    assert {"smoke", "full"} <= labels


@pytest.mark.parametrize("name", [name for name, workload in ALL.items() if "smoke" in workload.labels])
def test_names_within_a_workload_are_unique(name):
    workload = ALL[name]
    operations = [*workload.preparation, workload.measured]
    names = [
        (body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])
        for operation in operations
        for body in operation.objects()
    ]
    assert len(names) == len(set(names))


def test_parameters_set_counts_and_nodes_get_zones_in_turn():
    workload = ALL["TopologySpreading/100Nodes"]
    nodes = next(operation for operation in workload.preparation if isinstance(operation, CreateNodes))
    zones = [body["metadata"]["labels"]["topology.kubernetes.io/zone"] for body in nodes.objects()]
    assert zones[:4] == ["moon-1", "moon-2", "moon-3", "moon-1"]
    assert (len(zones), workload.nodes, workload.measured.count) == (100, 100, 150)


def test_measured_pods_have_the_scheduler_name_and_their_constraints():
    pod = next(ALL["SpreadZoneAndHostname/100Nodes"].measured.objects())
    assert pod["metadata"]["name"] == "measured-0"
    assert pod["spec"]["schedulerName"] == "podwright"
    keys = [constraint["topologyKey"] for constraint in pod["spec"]["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "500Mi"}


def test_containers_of_a_template_replace_the_default_one():
    pod = next(ALL["SchedulingDaemonset/100Nodes"].measured.objects())
    assert "resources" not in pod["spec"]["containers"][0]


def test_background_operations_are_not_part_of_the_preparation():
    churning = ALL["SchedulingWithMixedChurn/100Nodes"]
    assert [type(operation) for operation in churning.background] == [Churn]
    gated = ALL["SchedulingWhileGated/1Node_100GatedPods"]
    deleted = gated.background[0]
    assert isinstance(deleted, DeletePods)
    prepared = [operation for operation in gated.preparation if isinstance(operation, CreatePods)]
    assert [operation.wait for operation in prepared] == [False, True]
    assert prepared[1].prefix == deleted.prefix


def test_members_name_their_groups_and_each_group_has_as_many_as_it_needs():
    workload = ALL["GangScheduling/10Nodes_3Gangs"]
    groups = [body for operation in workload.preparation for body in operation.objects() if body["kind"] == "PodGroup"]
    assert {each["metadata"]["name"]: each["spec"]["schedulingPolicy"]["gang"]["minCount"] for each in groups} == {
        "gang-0": 3, "gang-1": 3, "gang-2": 3,
    }  # fmt: skip
    named = [body["spec"]["schedulingGroup"]["podGroupName"] for body in workload.measured.objects()]
    assert Counter(named) == {"gang-0": 3, "gang-1": 3, "gang-2": 3}


@pytest.mark.parametrize("name", [name for name, workload in ALL.items() if workload.pod_groups])
def test_pods_that_exist_before_are_on_nodes_that_exist(name):
    nodes, used = set(), set()
    for operation in ALL[name].preparation:
        for body in operation.objects():
            if body["kind"] == "Node":
                nodes.add(body["metadata"]["name"])
            elif body["kind"] == "Pod":
                used.add(body["spec"].get("nodeName"))
    assert used - {None} <= nodes


def test_only_workloads_with_pod_groups_have_the_control_plane_serve_them(monkeypatch):
    monkeypatch.setenv("KUBERNETES_VERSION", "1.37.2")
    assert ALL["SchedulingBasic/100Nodes"].control_plane == {}
    workload = ALL["TopologyAwareScheduling/100Nodes_10Gangs"]
    assert workload.control_plane["feature_gates"]["TopologyAwareWorkloadScheduling"]
    assert workload.control_plane["runtime_config"] == {"scheduling.k8s.io/v1beta1": True}
    monkeypatch.setenv("KUBERNETES_VERSION", "1.36.0")
    with pytest.raises(
        ValueError, match=r"needs a version of Kubernetes with PodGroups of scheduling\.k8s\.io/v1beta1"
    ):
        _ = workload.control_plane


def test_templates_may_name_their_number():
    template = {"metadata": {"name": "a-{number}"}, "of {remainder}": [{"x": "{quotient}/{remainder}"}, 3, "{other}"]}
    assert numbered(template, 7, 3) == {"metadata": {"name": "a-7"}, "of 1": [{"x": "2/1"}, 3, "{other}"]}


def test_claims_that_have_devices_have_different_ones_that_slices_publish():
    published, taken = set(), []
    for operation in ALL["ClaimTemplates/50Nodes"].preparation:
        for body in operation.objects():
            if body["kind"] == "ResourceSlice":
                spec = body["spec"]
                assert spec["nodeName"] == spec["pool"]["name"]
                published |= {(spec["pool"]["name"], device["name"]) for device in spec["devices"]}
            elif body["kind"] == "ResourceClaim":
                taken += [(r["pool"], r["device"]) for r in body["status"]["allocation"]["devices"]["results"]]
    assert len(set(taken)) == len(taken) == 250
    assert set(taken) < published
    assert len(published) == 500


def test_pods_ask_for_extended_resources_in_turn_and_have_claims_only_from_templates():
    extended, claimed = ALL["ExtendedResources/50Nodes"].measured, ALL["ClaimTemplates/50Nodes"].measured
    asked = [next(iter(extended.object(i)["spec"]["containers"][0]["resources"]["limits"])) for i in (0, 24, 25)]
    assert asked == ["example.com/gpu-0", "example.com/gpu-24", "example.com/gpu-0"]
    assert (extended.needs_claims, claimed.needs_claims) == (False, True)


def test_queues_are_in_three_levels_and_pods_in_all_of_the_lowest():
    workload = ALL["SchedulingInQueues/1000Nodes"]
    queues = [body for op in workload.preparation for body in op.objects() if body["kind"] == "SchedulingQueue"]
    names = {body["metadata"]["name"] for body in queues}
    parents = {body["spec"]["parent"] for body in queues if "parent" in body["spec"]}
    assert len(names) == len(queues) == 1000
    assert parents < names
    used = {body["metadata"]["labels"]["podwright.dev/queue"] for body in workload.measured.objects()}
    assert used == names - parents


@pytest.mark.parametrize("title", ["UnschedulableGang/20Nodes", "UnschedulableGang/500Nodes"])
def test_parameters_in_templates_are_numbers_and_one_gpu_of_the_gang_is_guaranteed_to_others(title):
    workload = ALL[title]
    bodies = [body for op in workload.preparation for body in op.objects()]
    spare = next(body for body in bodies if body["metadata"]["name"] == "spare")
    gang = next(body for body in bodies if body["kind"] == "PodGroup")
    gpus = workload.nodes * 8
    assert spare["spec"]["resources"]["nvidia.com/gpu"]["guarantee"] == gpus - 8 * gang["spec"]["minMember"] + 1
    assert workload.measured.count == gang["spec"]["minMember"]
    groups = {body["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for body in workload.measured.objects()}
    assert groups == {gang["metadata"]["name"]}


def test_gangs_fill_the_nodes_nine_times_and_have_as_many_pods_as_they_need():
    workload = ALL["GangsInWaves/32Nodes"]
    gangs = {
        body["metadata"]["name"]: body["spec"]["minMember"]
        for op in workload.preparation
        for body in op.objects()
        if body["kind"] == "PodGroup"
    }
    pods = [*workload.measured.objects()]
    assert Counter(body["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for body in pods) == gangs
    assert (len(gangs), len(pods), workload.nodes) == (53, 9 * 32, 32)
    assert {body["metadata"]["annotations"]["benchmarks/runs-for"] for body in pods} == {"6000ms"}
    wave = 0
    for size in gangs.values():
        wave += size
        assert wave <= 32
        wave %= 32


@pytest.mark.parametrize(
    ("title", "each"), [("KueueBaseline/5Cohorts", (350, 100, 50)), ("KueueLargeScale/20Cohorts", (20, 7, 3))]
)
def test_each_queue_of_kueues_shapes_gets_its_pods_of_each_size(title, each):
    workload = ALL[title]
    queues = [
        body for op in workload.preparation for body in op.objects() if body["metadata"]["name"].startswith("queue-")
    ]
    found = Counter(
        (body["metadata"]["labels"]["podwright.dev/queue"], body["spec"]["priorityClassName"])
        for body in workload.measured.objects()
    )
    expected = dict(zip(("priority-50", "priority-100", "priority-200"), each, strict=True))
    assert found == {(queue["metadata"]["name"], name): count for queue in queues for name, count in expected.items()}


@pytest.mark.parametrize(
    ("title", "gangs"), [("KueueTopology/20Nodes", 30), ("KueueTopology/640Nodes_1500Gangs", 1500)]
)
def test_gangs_of_kueues_topology_shape_have_their_sizes_and_wishes_in_equal_shares(title, gangs):
    workload = ALL[title]
    bodies = [body for op in workload.preparation for body in op.objects()]
    least = {each["metadata"]["name"]: each["spec"]["minMember"] for each in bodies if each["kind"] == "PodGroup"}
    pods = [*workload.measured.objects()]
    assert Counter(body["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for body in pods) == least
    found = {}
    for body in pods:
        metadata = body["metadata"]
        wish = next(each for each in metadata["annotations"] if each.startswith("kueue"))
        kind = (body["spec"]["priorityClassName"], wish, metadata["labels"]["podwright.dev/queue"])
        assert found.setdefault(metadata["labels"]["scheduling.x-k8s.io/pod-group"], kind) == kind
    assert len(found) == gangs
    shares = Counter((priority, least[name]) for name, (priority, _, _) in found.items())
    assert shares == {
        ("priority-50", 2): 0.7 * gangs,
        ("priority-100", 4): 0.2 * gangs,
        ("priority-200", 8): 0.1 * gangs,
    }
    assert set(Counter(wish for _, wish, _ in found.values()).values()) == {gangs // 3}
    queues = {body["metadata"]["name"] for body in bodies if body["metadata"]["name"].startswith("queue-")}
    assert {queue for _, _, queue in found.values()} == queues
    racks = Counter(
        each["metadata"]["labels"]["cloud.provider.com/topology-rack"] for each in bodies if each["kind"] == "Node"
    )
    assert set(racks.values()) == {workload.nodes // 10}


def test_a_capacity_in_a_template_replaces_the_default_one():
    single = next(ALL["SchedulingWhileGated/1Node_100GatedPods"].preparation[0].objects())
    assert single["metadata"]["name"] == "the-node"
    assert single["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "90000"}


@pytest.mark.parametrize(
    "operations, error",
    [
        pytest.param("[{opcode: createNodes, count: 1}]", "must have collectMetrics", id="no measured pods"),
        pytest.param("[{opcode: dance}]", "unknown opcode dance", id="an unknown opcode"),
        pytest.param(
            "[{opcode: createPods, count: 1}]", "Invalid: .*needs podTemplatePath", id="pods without a template"
        ),
        pytest.param(
            "[{opcode: createPods, count: 1, podTemplatePath: no-such-pod}]",
            "Invalid: template no-such-pod is missing: there is no file .*/templates/no-such-pod.yaml",
            id="a missing template",
        ),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path, operations, error):
    text = f"[{{name: Invalid, workloadTemplate: {operations}, workloads: [{{name: One, params: {{}}}}]}}]"
    with pytest.raises(ValueError, match=error):
        write(tmp_path, text)


def titles(label="smoke", names=(), sizes=()):
    return [workload.title for workload in choose(load(), label, names, sizes)]


def test_each_set_has_workloads_and_each_label_is_a_set():
    assert set().union(*(workload.labels for workload in ALL.values())) == SETS.keys()
    assert titles("thin") == ["SchedulingBasic/1000Nodes"]


def test_names_and_sizes_restrict_what_is_run():
    assert titles(names=["StartUp", "TopologySpreading"]) == ["StartUp/100Nodes", "TopologySpreading/100Nodes"]
    assert titles(names=["StartUp"], sizes=["5000Nodes_30000Pods"]) == ["StartUp/5000Nodes_30000Pods"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"names": ["Basic"]},
            r"no workload is named Basic. There are .*SchedulingBasic, .*Sets: smoke, thin, quick, full, start, scale, large, devices, queues",
            id="an unknown workload",
        ),
        pytest.param(
            {"names": ["StartUp"], "sizes": ["7Nodes"]},
            r"no size is named 7Nodes. There are 100Nodes, 5000Nodes_30000Pods\.",
            id="an unknown size",
        ),
        pytest.param(
            {"names": ["StartUp"], "label": "thin"},
            r"StartUp has no size in the set thin. Choose another --set or --size:\n  StartUp/100Nodes: smoke\n",
            id="a workload that is not in the set",
        ),
    ],
)
def test_a_wrong_choice_lists_what_exists(arguments, message):
    with pytest.raises(ValueError, match=message):
        titles(**arguments)


def test_the_command_line_explains_the_sets_and_reports_a_wrong_choice():
    text = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert all(f"{name}: {meaning}" in text for name, meaning in SETS.items())
    done = CliRunner().invoke(main, ["--workload", "Basic"])
    assert done.exit_code == 2
    assert "no workload is named Basic" in done.output
