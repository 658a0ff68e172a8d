"""Streams, read from recordings and from lists of tasks, and messages about errors in them."""

import gzip
import json

import pytest

from podwright.simulator.replay.recording import read_recording
from podwright.simulator.replay.stream import Arrival, NodeUpdate, PodLeaves, StreamError
from podwright.simulator.replay.task_lists import (
    GPU,
    GPU_SHARE,
    MODEL,
    filling_stream,
    read_nodes,
    read_tasks,
    stream_of,
)
from support.simulator.kit import node, pod

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,32000,1024,0,\n"
TASKS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "late,1000,1024,0,0,,LS,Running,50,80,60\n"
    "share,6000,12288,1,460,V100|T4,BE,Running,10,40,10\n"
    "never,1000,1024,2,1000,,LS,Pending,20,30,\n"
)


@pytest.fixture
def file(tmp_path):
    def write(content, name="list.csv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
        return str(path)

    return write


def lines(*entries):
    return "\n".join(json.dumps(entry) for entry in entries)


def entry(time, kind, raw, **more):
    return {"time": time, "type": kind, "object": raw, **more}


# Lists of tasks


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.csv.gz"])
def test_nodes_of_a_list(file, name):
    a, b = read_nodes(file(NODES, name))
    assert a["status"]["allocatable"] == {"cpu": "64000m", "memory": "262144Mi", "pods": "1024", GPU: "2"}
    assert a["metadata"]["labels"][MODEL] == "P100"
    assert GPU not in b["status"]["allocatable"]


def test_a_list_may_have_shares_of_gpus(file):
    a, b = read_nodes(file(NODES), shares=True)
    assert a["status"]["allocatable"][GPU_SHARE] == "2000"
    assert not {GPU, GPU_SHARE} & b["status"]["allocatable"].keys()
    late, share, never = read_tasks(file(TASKS), shares=True)
    assert [each.pod.requests.amounts.get(GPU_SHARE) for each in (late, share, never)] == [None, 460, 2000]
    assert GPU not in share.pod.requests.amounts


def test_tasks_of_a_list(file):
    late, share, never = read_tasks(file(TASKS))
    assert (late.time, late.runs_for, late.gives_up_at) == (50, 20, None)
    assert dict(share.pod.requests.amounts) == {"cpu": 6000, "memory": 12288 << 20, GPU: 1}, "rounded up to a whole GPU"
    assert dict(share.pod.labels) == {"qos": "BE"}
    assert (never.runs_for, never.gives_up_at) == (10, 30)
    stream = stream_of([], [late, share, never])
    assert [event.pod.name for event in stream.events] == ["share", "never", "late"]
    assert (stream.start, stream.end) == (10, 70)


def test_a_list_needs_few_columns(file):
    (task,) = read_tasks(file("creation_time,name,cpu_milli,memory_mib\n5,a,1000,1024\n"))
    assert (task.time, task.runs_for, task.gives_up_at) == (5, None, None)
    (only,) = read_nodes(file("sn,cpu_milli,memory_mib\na,1000,1024\n"))
    assert only["metadata"]["name"] == "a"


def test_a_filling_stream_ends_before_the_share_is_passed(file):
    tasks = read_tasks(file(TASKS))
    nodes = read_nodes(file(NODES.replace(",2,P100", ",8,P100"), "nodes.csv"))
    stream = filling_stream(nodes, tasks, 1.5, 7, GPU)
    asked = sum(event.pod.requests.amounts.get(GPU, 0) for event in stream.events)
    assert 10 <= asked <= 12
    assert {event.pod.name for event in stream.events[:3]} == {"late", "share", "never"}
    assert len({event.pod.uid for event in stream.events}) == len(stream.events)
    again = filling_stream(nodes, tasks, 1.5, 7, GPU)
    assert [event.pod.name for event in stream.events] == [event.pod.name for event in again.events]
    with pytest.raises(StreamError, match=r"no task requests example.com/fpga"):
        filling_stream(nodes, tasks, 1.5, 7, "example.com/fpga")


@pytest.mark.parametrize(
    "read, content, problem",
    [
        (read_nodes, "sn,gpu\na,1\n", ":1: the columns cpu_milli, memory_mib are missing"),
        (read_tasks, "", ":1: the columns name, cpu_milli, memory_mib, creation_time are missing"),
        (read_tasks, TASKS.replace(",creation_time", ",created"), ":1: the column creation_time is missing"),
        (read_nodes, NODES.replace("gpu", "sn", 1), ":1: the column sn is given twice"),
        (read_tasks, TASKS + "x,1,2\n", ":5: has 3 columns, and the header 11"),
        (read_tasks, TASKS.replace("share,6000", "share,lots"), ":3: cpu_milli: 'lots' is not a number"),
        (read_tasks, TASKS.replace("share,6000", "share,-1"), ":3: cpu_milli: '-1' is not a number"),
        (read_tasks, TASKS.replace("share,6000", "share,nan"), ":3: cpu_milli: 'nan' is not a number"),
        (read_tasks, TASKS.replace("share,6000", "share,"), ":3: cpu_milli: is empty"),
        (read_tasks, TASKS.replace("share", "late"), ":3: name: 'late' is given twice"),
        (read_tasks, TASKS.replace("50,80,60", "50,40,60"), ":2: deletion_time: 40 is before the task started, 60"),
        (read_nodes, NODES.replace("\nb", "\na"), ":3: sn: 'a' is given twice"),
        (read_nodes, 'sn,cpu_milli,memory_mib\n"a', ": is not CSV: "),
    ],
)
def test_an_error_in_a_list_names_file_line_and_column(file, read, content, problem):
    path = file(content)
    with pytest.raises(StreamError) as caught:
        read(path)
    assert str(caught.value).startswith(path)
    assert problem in str(caught.value)


def test_a_packed_list_that_is_cut_off_is_an_error(tmp_path):
    path = tmp_path / "list.csv.gz"
    path.write_bytes(gzip.compress(TASKS.encode())[:-12])
    with pytest.raises(StreamError, match="cannot be unpacked"):
        read_tasks(str(path))


# Recordings


def test_what_was_there_at_the_start_is_the_initial_cluster(file):
    stream = read_recording(
        file(
            lines(
                entry(100, "INITIAL", node("a")),
                entry(100, "INITIAL", pod("there", on="a")),
                entry(100, "INITIAL", pod("waits")),
                entry(130, "DELETED", pod("there", on="a")),
            )
        )
    )
    assert [raw["metadata"]["name"] for raw in stream.initial] == ["a", "there"]
    arrival, leaves = stream.events
    assert isinstance(arrival, Arrival)
    assert (arrival.pod.name, arrival.time, arrival.leaves_at) == ("waits", 100, None)
    assert leaves == PodLeaves(130, "default/there")
    assert (stream.start, stream.end) == (100, 130)


def test_a_service_leaves_when_it_left_and_a_job_runs_as_long_as_it_did(file):
    def life(name, **more):
        return [
            entry(10, "ADDED", pod(name, **more)),
            entry(15, "MODIFIED", pod(name, on="a", **more)),
            entry(40, "MODIFIED", pod(name, on="a", status={"phase": "Succeeded"}, **more)),
            entry(90, "DELETED", pod(name, on="a", **more)),
        ]

    stream = read_recording(file(lines(*life("service"), *life("job", kind="Job"), *life("once", spec={"restartPolicy": "Never"}), entry(11, "ADDED", pod("told"), duration=5))))  # fmt: skip
    found = {event.pod.name: (event.time, event.runs_for, event.leaves_at) for event in stream.events}
    assert found == {
        "service": (10, None, 40),
        "job": (10, 25, None),
        "once": (10, 25, None),
        "told": (11, 5, None),
    }
    assert all(event.pod.node_name == "" for event in stream.events)


def test_nodes_come_and_go(file):
    stream = read_recording(file(lines(entry(1, "ADDED", node("a")), entry(2, "DELETED", node("a")))))
    assert [(e.time, e.name, e.raw is None) for e in stream.events if isinstance(e, NodeUpdate)] == [
        (1, "a", False),
        (2, "a", True),
    ]


def test_a_snapshot_may_come_before_the_lines(file):
    stream = read_recording(file(lines(entry(5, "ADDED", pod("new")))), [node("a"), pod("on", on="a"), pod("waits")])
    assert [raw["metadata"]["name"] for raw in stream.initial] == ["a", "on"]
    assert [event.pod.name for event in stream.events] == ["waits", "new"]


def test_a_pod_that_cannot_be_understood_is_left_out_and_named(file):
    path = file(lines(entry(1, "ADDED", pod("bad", cpu="1x")), entry(1, "ADDED", pod("good"))))
    stream = read_recording(path)
    assert [event.pod.name for event in stream.events] == ["good"]
    assert stream.problems == [
        f"{path}:1: Pod default/bad: spec.containers[0].resources.requests[cpu]: '1x' is not a quantity"
    ]


@pytest.mark.parametrize(
    "line, problem",
    [
        ("{", ":2: not JSON"),
        ("[]", ":2: expected an object, got a list"),
        ("{}", ":2: time: is missing"),
        ('{"time": -1}', ":2: time: expected a time"),
        ('{"time": "noon"}', ":2: time: 'noon' is not a time"),
        ('{"time": 1, "type": "BOOKMARK"}', ":2: type: 'BOOKMARK' is not one of INITIAL, ADDED, MODIFIED, DELETED"),
        ('{"time": 1, "type": "ADDED"}', ":2: object: expected a Kubernetes object"),
        ('{"time": 1, "type": "ADDED", "object": {"kind": "Pod"}}', ":2: object.metadata.name: is missing"),
        (json.dumps(entry(1, "ADDED", pod("p"), duration="long")), ":2: duration: expected seconds"),
    ],
)
def test_an_error_in_a_recording_names_file_and_line(file, line, problem):
    path = file(f"{json.dumps(entry(1, 'ADDED', pod('first')))}\n{line}\n")
    with pytest.raises(StreamError) as caught:
        read_recording(path)
    assert str(caught.value).startswith(f"{path}{problem}")
