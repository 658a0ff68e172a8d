"""`podwright replay` as a user runs it."""

import json
import re

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from support.objects.builders import make_policy
from support.simulator.kit import node, pod

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},8000,16384,2,T4\n" for i in range(4))
TASKS = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time,scheduled_time\n" + "".join(
    f"t{i},1000,1024,1,{i},{i + 100},{i}\n" for i in range(10)
)
PACK = yaml.safe_dump(make_policy("pack", strategy={"type": "MostAllocated"}))


@pytest.fixture
def run(tmp_path):
    for name, content in (("nodes.csv", NODES), ("tasks.csv", TASKS), ("pack.yaml", PACK)):
        (tmp_path / name).write_text(content)

    def invoke(*args, code=0, **files):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        known = {path.name for path in tmp_path.iterdir()}
        result = CliRunner().invoke(
            main, ["replay", *(str(tmp_path / arg) if arg in known else str(arg) for arg in args)]
        )
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_policies_are_shown_side_by_side(run):
    result = run("tasks.csv", "--nodes", "nodes.csv", "--policy", "built-in", "--policy", "pack.yaml")
    header = next(line for line in result.stdout.splitlines() if "built-in" in line)
    assert "pack" in header
    assert "10 of 10" in result.stdout
    assert "attempts in" in result.stderr


def test_figures_for_programs(run):
    built_in, pack = json.loads(run("tasks.csv", "--nodes", "nodes.csv", "--policy", "built-in", "--policy", "pack.yaml", "-o", "json").stdout)  # fmt: skip
    assert built_in["resource"] == "nvidia.com/gpu"
    assert built_in["placed"] == pack["placed"] == 10
    assert pack["nodesInUse"] <= built_in["nodesInUse"]
    (only,) = yaml.safe_load(run("tasks.csv", "--nodes", "nodes.csv", "-o", "yaml", "--resource", "cpu").stdout)
    assert only["resource"] == "cpu"


def test_progress_is_a_line_a_while_where_there_is_no_terminal(run, monkeypatch):
    assert "events" not in run("tasks.csv", "--nodes", "nodes.csv").stderr
    monkeypatch.setattr("podwright.cli.commands.replay.PROGRESS_SECONDS", 0.0)
    shown = run("tasks.csv", "--nodes", "nodes.csv", "--policy", "pack.yaml").stderr
    assert re.search(r"^pack: 10 of 10 events, \d+ s$", shown, re.MULTILINE)


def test_fewer_nodes_make_pods_wait(run):
    (card,) = json.loads(run("tasks.csv", "--nodes", "nodes.csv", "--every-nth-node", "4", "-o", "json").stdout)
    assert card["nodes"] == pytest.approx(1)
    assert card["waiting"]["longest"] > 90


def test_tasks_fill_the_cluster(run):
    (card,) = json.loads(run("tasks.csv", "--nodes", "nodes.csv", "--fill", "1.25", "-o", "json").stdout)
    assert (card["arrived"], card["placed"]) == (10, 8)
    assert card["peakAllocation"]["nvidia.com/gpu"] == 1.0


def test_scorecard_and_plots_are_written_the_same_each_time(run, tmp_path):
    for folder in ("one", "two"):
        run("tasks.csv", "--nodes", "nodes.csv", "--policy", "pack.yaml", "--out", tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert {"scorecard.md", "scorecard.json", "allocation.svg", "waiting.svg"} <= {*names}
    assert len(names) == 9
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_recordings_bring_their_own_nodes(run):
    lines = [
        {"time": 0, "type": "INITIAL", "object": node("a")},
        {"time": 0, "type": "ADDED", "object": pod("p"), "duration": 5},
        {"time": 1, "type": "ADDED", "object": pod("bad", cpu="x")},
    ]
    result = run("rec.jsonl", "-o", "json", **{"rec.jsonl": "\n".join(map(json.dumps, lines))})
    (card,) = json.loads(result.stdout)
    assert card["placed"] == 1
    assert "rec.jsonl:3: Pod default/bad" in result.stderr


@pytest.mark.parametrize(
    "args, files, problem",
    [
        (["tasks.csv"], {}, "a list of tasks needs --nodes"),
        (["rec.jsonl", "--fill", "1"], {"rec.jsonl": ""}, "--fill needs a list of tasks"),
        (["tasks.csv", "--nodes", "nodes.csv", "--price", "x"], {}, "--price: 'x' is not of the form"),
        (["tasks.csv", "--nodes", "nodes.csv", "--price", "a:1"], {}, "--price: 'a:1' is not of the form"),
        (["tasks.csv", "--nodes", "nodes.csv", "--gather-after", "soon"], {}, "'soon' is not a duration such as 5m"),
        (["tasks.csv", "--nodes", "bad.csv"], {"bad.csv": "a,b\n"}, "bad.csv:1: the columns sn, cpu_milli, memory_mib are missing"),
        (["tasks.csv", "--nodes", "nodes.csv", "--policy", "bad.yaml"], {"bad.yaml": yaml.safe_dump(make_policy("b", weight=1))}, "bad.yaml: policy b: spec.weight: unknown field"),
        (["tasks.csv", "--nodes", "nodes.csv", "--policy", "pod.yaml"], {"pod.yaml": "kind: Pod"}, "pod.yaml: expected one of SchedulerPolicy, SchedulingQueue, RebalancePolicy, got Pod"),
        (["tasks.csv", "--nodes", "nodes.csv", "--policy", "none.yaml"], {}, "none.yaml: No such file"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_that_says_where(run, args, files, problem):
    assert problem in run(*args, code=1, **files).output


def test_gangs_that_wait_at_the_end_are_named_by_their_workloads(run):
    api = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    raws = [node("n0", cpu="1")]
    for number in range(12):
        owners = [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": f"llm-{number}", "uid": "u"}]
        metadata = {"name": f"g{number}", "namespace": "default", "ownerReferences": owners}
        raws.append({**api, "metadata": metadata, "spec": {"minMember": 2}})
        named = {"annotations": {"scheduling.k8s.io/group-name": f"g{number}"}}
        raws += [pod(f"p{number}-{member}", cpu="1", metadata=named) for member in range(2)]
    lines = [json.dumps({"time": 0, "type": "INITIAL", "object": raw}) for raw in raws]
    lines.append(json.dumps({"time": 60, "type": "ADDED", "object": pod("last", cpu="4")}))
    shown = run("recording.jsonl", **{"recording.jsonl": "\n".join(lines)}).stdout
    assert "built-in: 12 gangs left waiting at the end\n" in shown
    assert "  RayCluster default/llm-0: 0 of 2 pods that start together have a node, 2 exist\n" in shown
    assert shown.endswith("  and 2 more\n")
