"""`podwright simulate` as a user runs it."""

import json
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.engine.view.rebalance_picture import COLORS
from support.objects.builders import make_policy
from support.objects.queues import queue
from support.simulator.kit import item, node, pod

CLUSTER = [
    node("a"),
    node("b", cpu="2"),
    *(pod(f"web-{i}", on="a") for i in range(3)),
    pod("bare", on="b", owner="", labels={}),
    pod("waits", cpu="3"),
    item("ConfigMap", {"metadata": {"name": "c"}}),
]


@pytest.fixture
def run(tmp_path):
    """Runs the command on these objects. Texts of `files` are written beside the snapshot."""

    def invoke(*args, objects=CLUSTER, code=0, **files):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": objects}))
        for name, content in files.items():
            (tmp_path / name).write_text(content if isinstance(content, str) else yaml.safe_dump_all(content))
        given = [str(tmp_path / arg) if arg in files else str(arg) for arg in args]
        result = CliRunner().invoke(main, ["simulate", str(path), *given])
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.mark.parametrize(("wrong", "last"), [(10, "q9: "), (11, "and 1 more problem"), (12, "and 2 more problems")])
def test_the_first_ten_problems_are_shown_and_the_others_counted(run, wrong, last):
    bad = [queue(f"q{number}", priority="high") for number in range(wrong)]
    lines = run(objects=[node("a"), *bad]).stderr.splitlines()
    told = [line for line in lines if not line.startswith("Note: ")]
    assert len(told) == min(wrong, 11)
    assert told[-1].removeprefix("Problem: SchedulingQueue ").startswith(last)


def test_the_report_says_what_lands_what_waits_and_how_full_the_cluster_is(run):
    shown = run("--drain", "b").stdout
    assert (
        "1 pod would get a node\n  POD           NODE  BECAUSE         POLICY\n  default/bare  a     drained from b"
        in shown
    )
    assert "1 pod would be pending\n  default/waits: 0/2 nodes are available: 1 Insufficient cpu" in shown
    assert "1 pod would not be evicted\n  default/bare on b: no controller would create it again" in shown
    assert ["cpu", "4", "of", "6", "66.7%", "4", "of", "6", "66.7%"] in [line.split() for line in shown.splitlines()]


def test_what_is_wrong_in_the_snapshot_goes_to_standard_error(run):
    result = run(objects=[*CLUSTER, pod("bad", cpu="1x")])
    assert (
        "Problem: Pod default/bad: spec.containers[0].resources.requests[cpu]: '1x' is not a quantity" in result.stderr
    )
    assert "Left out, because scheduling does not depend on them: 1 ConfigMap" in result.stderr


@pytest.mark.parametrize("output, read", [("json", json.loads), ("yaml", yaml.safe_load)])
def test_results_for_programs(run, output, read):
    result = read(run("--add-nodes", "1", "--like", "a", "-o", output).stdout)
    assert result["landed"] == [{"pod": "default/waits", "node": "a-added-1", "cause": "pending", "cameFrom": "", "policy": "built-in-default@0"}]  # fmt: skip
    assert result["after"]["nodes"] == 3
    assert result["complete"] is True
    assert set(result["emptied"]["together"]) == {"b"}


def test_wide_lists_the_nodes_that_change(run):
    assert "  a-added-1  - -> 1  - -> 75%" in run("--add-nodes", "1", "--like", "a", "-o", "wide").stdout


def test_policies_pods_and_claims_come_from_files(run):
    files = {"policies.yaml": [make_policy("pack", strategy={"type": "MostAllocated"})], "pods.yaml": [pod("new")]}
    shown = run("--policy", "policies.yaml", "--pods", "pods.yaml", **files).stdout
    assert "default/new  a     added    pack@0" in shown
    assert "default/new  b" in run("--pods", "pods.yaml", **files).stdout or "default/new  a" in shown


def test_workloads_are_scaled(run):
    assert "default/web-added-1  a     scaled" in run("--scale", "deploy/web=5").stdout


def test_each_node_is_tried(run):
    shown = run("--each-node", "drain").stdout
    assert "0 of 2 nodes could be drained and all pods would get another node" in shown
    assert "  a     1      2        0          0        0/2 nodes are available" in shown
    found = json.loads(run("--each-node", "remove", "-o", "json").stdout)
    assert [each["fits"] for each in found["nodes"]] == [False, True]


def test_nodes_whose_pods_kubectl_would_not_evict_do_not_count_as_drained(run):
    shown = run("--each-node", "drain", objects=[node("a"), node("b"), pod("bare", on="b", owner="")]).stdout
    assert shown.startswith(
        "1 of 2 nodes could be drained and all pods would get another node\nkubectl drain would not evict all pods of 1 node\n"
    )
    assert "  b     1      0        0          1        no controller would create it again" in shown
    assert shown.endswith("  1 node that could be drained is not listed; -o wide lists all nodes\n")
    wide = run("--each-node", "drain", "-o", "wide").stdout
    assert "not listed" not in wide


def test_one_node_that_cannot_be_emptied_is_called_so(run):
    shown = run(objects=[node("a", cpu="2"), pod("web", on="a")]).stdout
    assert "The least used node could not be emptied." in shown
    shown = run(objects=[node("a", cpu="2"), node("b", cpu="2"), pod("a", on="a", cpu="2"), pod("b", on="b", cpu="2")])
    assert "None of the 2 least used nodes could be emptied." in shown.stdout


def test_escape_sequences_in_names_do_not_reach_the_terminal(run):
    objects = [node("a\x1b[2J"), node("b", cpu="2"), pod("web", on="a\x1b[2J"), pod("w\x9b0m", cpu="30"), pod("x\x1b", cpu="1x")]  # fmt: skip
    for args in (["--drain", "a\x1b[2J", "-o", "wide"], ["--each-node", "drain", "-o", "wide"]):
        result = run(*args, objects=objects)
        assert "a\\x1b[2J" in result.stdout
        assert "Problem: Pod default/x\\x1b" in result.stderr
        assert not {"\x1b", "\x9b"} & {*result.output}


@pytest.mark.parametrize(
    "args, files, problem",
    [
        (["--drain", "x"], {}, "Error: drain: there is no node 'x'"),
        (["--add-nodes", "1"], {}, "Error: --add-nodes needs either --like or --node-template"),
        (["--like", "a"], {}, "Error: --like and --node-template need --add-nodes"),
        (["--scale", "web"], {}, "Error: scale: 'web' is not of the form"),
        (["--each-node", "drain", "--drain", "a"], {}, "Error: --each-node excludes the flags"),
        (["--policy", "p.yaml"], {"p.yaml": [pod("x")]}, "p.yaml: expected a SchedulerPolicy, got Pod"),
        (["--policy", "p.yaml"], {"p.yaml": [make_policy("x", weight=3)]}, "p.yaml: policy x: spec.weight"),
        (["--policy", "p.yaml"], {"p.yaml": "a: ["}, "p.yaml: not YAML"),
        (["--policy", "p.yaml"], {"p.yaml": ""}, "p.yaml: has no objects"),
        (["--pods", "p.yaml"], {"p.yaml": "- 1"}, "p.yaml: expected an object, got a list"),
        (["--pods", "p.yaml"], {"p.yaml": "metadata: {}"}, "p.yaml: kind: is missing"),
        (["--pods", "p.yaml"], {"p.yaml": [pod("x", cpu="1x")]}, "p.yaml: Pod default/x: spec.containers[0].resources.requests[cpu]"),
        (["--node-template", "n.yaml", "--add-nodes", "1"], {"n.yaml": [pod("x")]}, "n.yaml: expected one manifest of kind Node"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_that_says_where(run, args, files, problem):
    assert problem in run(*args, code=1, **files).output


@pytest.mark.parametrize(
    "args, problem",
    [
        (["--listen", "0.0.0.0:80"], "0.0.0.0 is not a loopback address, so --token-file is needed"),
        (["--listen", "80"], "'80' is not of the form 127.0.0.1:8089"),
        (["--listen", "127.0.0.1:99999"], "is not of the form"),
    ],
)
def test_a_server_needs_an_address_of_this_machine_or_a_token(run, args, problem):
    assert problem in run("--serve", *args, code=1).output


def test_another_limit_of_a_queue_shows_what_would_start(run):
    limits = queue("ml", resources={"cpu": {"limit": "1"}})
    objects = [node("a"), limits, *(pod(f"p{i}", labels={"podwright.dev/queue": "ml"}) for i in range(3))]
    assert "ml holds 1 of 1 cpu" in run(objects=objects).stdout
    assert "2 pods would get a node" in run("--set", "queue/ml/cpu/limit=2", objects=objects).stdout
    changed = {"q.yaml": yaml.safe_dump({**limits, "spec": {}})}
    assert "3 pods would get a node" in run("-f", "q.yaml", objects=objects, **changed).stdout
    assert "did you mean 'limit'?" in run("--set", "queue/ml/cpu/limt=2", objects=objects, code=1).output
    assert "excludes" in run("--each-node", "drain", "--set", "queue/ml/cpu/limit=2", objects=objects, code=1).output


def test_a_file_may_have_policies_and_other_objects(run):
    both = {"f.yaml": [make_policy("packs", strategy={"type": "MostAllocated"}), queue("ml", state="Closed")]}
    shown = run(
        "-f", "f.yaml", objects=[node("a"), pod("one", labels={"podwright.dev/queue": "ml"}), pod("two")], **both
    )
    assert "default/two" in shown.stdout.partition("would be pending")[0]
    assert "packs@" in shown.stdout
    assert "queue ml is in state Closed" in shown.stdout


def test_the_picture_shows_what_waits_what_moves_and_what_is_evicted(run, tmp_path):
    low, high = pod("low", on="a", spec={"priority": 0}), pod("high", cpu="3", spec={"priority": 10})
    nodes = [node("a", cpu="3"), node("b", cpu="2"), node("c")]
    objects = [*nodes, low, pod("stays", on="b"), pod("moves", on="c"), high]
    run("--drain", "c", "--picture", "p.svg", objects=objects, **{"p.svg": ""})
    drawn = ElementTree.parse(tmp_path / "p.svg").getroot()
    cells = [
        (cell[0].text, [(bar.get("fill"), bar.get("height")) for bar in cell[2:]])
        for cell in drawn.iter("{http://www.w3.org/2000/svg}g")
    ]
    stays, leaves, comes, waited = COLORS[0], COLORS[1], COLORS[2], COLORS[4]
    assert cells[:3] == [("a", [(leaves, "12.0")]), ("b", [(stays, "18.0")]), ("c", [(leaves, "9.0")])]
    assert cells[3:] == [("a", [(waited, "36.0")]), ("b", [(stays, "18.0"), (comes, "18.0")]), ("c", [])]


def test_room_is_held_for_gangs_of_all_queues_as_the_operator_would(run):
    def runs(name, **more):
        return pod(name, cpu="4", labels={QUEUE_LABEL: "small"}, **more)

    old, labels = {"creationTimestamp": "2000-01-01T00:00:00Z"}, {QUEUE_LABEL: "large", GROUP_LABEL: "g"}
    group = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}, "spec": {"minMember": 2}}
    cluster = [
        node("a"),
        node("b"),
        queue("large", resources={"cpu": {"guarantee": "8"}}),
        queue("small", resources={"cpu": {}}, reclaimMinRuntime="24h"),
        item("PodGroup", group, f"{PLUGINS_API}/v1alpha1"),
        *(pod(f"g{i}", cpu="4", labels=labels, metadata=old) for i in range(2)),
        runs("runs", on="a"),
        runs("new"),
    ]
    assert "default/new  b" in run(objects=cluster).stdout
    assert "default/new: " in run("--gather-after", "5m", objects=cluster).stdout
    assert "'soon' is not a duration" in run("--gather-after", "soon", objects=cluster, code=1).output
