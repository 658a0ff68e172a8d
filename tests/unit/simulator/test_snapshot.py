"""Snapshots as files: what is read, and what the errors say about files that cannot be read."""

import gzip
import json

import pytest

from podwright.simulator.snapshot import Snapshot, SnapshotError, parse_snapshot, read_snapshot, write_snapshot
from support.objects.builders import make_node, make_pod

NODE = {"apiVersion": "v1", "kind": "Node", **make_node("a")}
POD = {"apiVersion": "v1", "kind": "Pod", **make_pod("p")}
LIST = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}).encode()


def kinds(snapshot):
    return [raw["kind"] for raw in snapshot.objects]


BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
)
BOMB = BOMB.encode()


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_what_is_written_is_read_again(tmp_path, name):
    taken = Snapshot(objects=[NODE, POD], missing={"Pod": "RBAC"}, taken_at=1_700_000_000.5, minor=37)
    path = str(tmp_path / name)
    write_snapshot(taken, path)
    assert read_snapshot([path]) == taken


def test_several_files_are_one_cluster(tmp_path):
    for name, item in (("nodes", NODE), ("pods", POD)):
        (tmp_path / name).write_text(json.dumps({"kind": "List", "items": [item]}))
    assert kinds(read_snapshot([str(tmp_path / "nodes"), str(tmp_path / "pods")])) == ["Node", "Pod"]


@pytest.mark.parametrize(
    "content, expected",
    [
        pytest.param(LIST, ["Node", "Pod"], id="a list of kubectl get"),
        pytest.param(json.dumps(NODE).encode(), ["Node"], id="a single object"),
        pytest.param(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [make_pod("p")]}).encode(), ["Pod"], id="a list of the API server, whose items lack the kind"),
        pytest.param(b"kind: List\nitems:\n- kind: Node\n  metadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}\n", ["Node"], id="YAML"),
        pytest.param(b"kind: Node\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: p}\n", ["Node", "Pod"], id="YAML documents"),
        pytest.param(json.dumps({"kind": "List", "items": [{"kind": "NodeList", "items": [NODE]}]}).encode(), ["Node"], id="a list in a list"),
    ],
)  # fmt: skip
def test_lists_of_kubectl_are_snapshots(content, expected):
    assert kinds(parse_snapshot(content, "f")) == expected


def test_times_in_yaml_stay_strings():
    found = parse_snapshot(b"kind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-01T00:00:00Z}\n", "f")
    assert found.objects[0]["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "content, problem",
    [
        pytest.param(LIST[:-40], f"f: is cut off after {len(LIST) - 40} bytes", id="the file is cut off"),
        pytest.param(LIST + b"}", "f: not JSON: ", id="there is more after the end"),
        pytest.param(b"", "f: is empty", id="the file is empty"),
        pytest.param(b"[]", "f: expected an object, got a list", id="it is a list"),
        pytest.param(b"{}", "f: items: is missing", id="there are no items"),
        pytest.param(b'{"items": {}}', "f: items: expected a list, got an object", id="items is an object"),
        pytest.param(b'{"items": [1]}', "f: items[0]: expected an object, got a number", id="an item is a number"),
        pytest.param(b'{"items": [{}]}', "f: items[0].kind: is missing", id="an item has no kind"),
        pytest.param(b'{"items": [], "podwright": {"takenAt": "now"}}', "f: podwright.takenAt: 'now' is not a time", id="the time is none"),
        pytest.param(b"Error from server (Forbidden)", "f: expected an object, got a string", id="an error message of kubectl"),
        pytest.param(b"a: [1", "f: not YAML: ", id="YAML that is cut off"),
        pytest.param(b"items: &a [*a]\n", "f:1: the alias *a is inside of what it stands for", id="an alias of itself"),
        pytest.param(BOMB, "f:5: the aliases add more than 100,000 values", id="aliases of aliases"),
        pytest.param(
            b"a: &a " + b"[" * 120 + b"]" * 120 + b"\nb: " + b"[" * 120 + b"*a" + b"]" * 120,
            "f:2: is nested more than 200 levels deep", id="an alias that is too deep",
        ),
        pytest.param(b"a: " + b"[" * 300, "f:1: is nested more than 200 levels deep", id="deep YAML"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_and_the_place(content, problem):
    with pytest.raises(SnapshotError) as caught:
        parse_snapshot(content, "f")
    assert str(caught.value).startswith(problem)


def test_a_packed_file_that_is_cut_off_is_an_error(tmp_path):
    path = tmp_path / "cluster.json.gz"
    path.write_bytes(gzip.compress(LIST)[:-20])
    with pytest.raises(SnapshotError, match=r"cluster.json.gz: cannot be unpacked: the file is cut off"):
        read_snapshot([str(path)])
