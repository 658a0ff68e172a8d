"""The workload files are valid, and yield the objects that they describe."""

import pytest
from benchmarks.workloads import Churn, CreateNodes, CreatePods, DeletePods, load

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


@pytest.mark.parametrize("workload", ALL.values(), ids=list(ALL))
def test_names_within_a_workload_are_unique(workload):
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


def test_a_capacity_in_a_template_replaces_the_default_one():
    single = next(ALL["SchedulingWhileGated/1Node_100GatedPods"].preparation[0].objects())
    assert single["metadata"]["name"] == "the-node"
    assert single["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "90000"}


@pytest.mark.parametrize(
    "operations, error",
    [
        pytest.param("[{opcode: createNodes, count: 1}]", "must have collectMetrics", id="no measured pods"),
        pytest.param("[{opcode: dance}]", "unknown opcode dance", id="an unknown opcode"),
        pytest.param("[{opcode: createPods, count: 1}]", "needs podTemplatePath", id="pods without a template"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path, operations, error):
    text = f"[{{name: Invalid, workloadTemplate: {operations}, workloads: [{{name: One, params: {{}}}}]}}]"
    with pytest.raises(ValueError, match=error):
        write(tmp_path, text)
