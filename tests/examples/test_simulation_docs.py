"""The commands of docs/simulate.md and docs/replay.md, run on a small cluster."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.sandbox import SandboxThread
from podwright.simulator.hypotheses.hypothesis import hypothesis_of
from podwright.testing.objects import collection_path
from support.examples.clusters import SandboxApi
from support.objects.builders import make_policy
from support.simulator.kit import node, pod

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = [
    (name, line.strip())
    for name in ("simulate.md", "replay.md")
    for line in (DOCS / name).read_text().splitlines()
    if re.match(r"    podwright (?!.*--serve)", line)
]
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,16384,2,T4\nb,8000,16384,2,T4\n"
TASKS = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\nt,1000,1024,1,0,9\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the commands name, and a cluster behind its kubeconfig."""
    path = tmp_path_factory.mktemp("docs")
    items = [*(node(f"node-{i}") for i in (1, 2, 3)), *(pod(f"web-{i}", on=f"node-{i}") for i in (1, 2, 3))]
    recording = [{"time": 0, "type": "INITIAL", "object": raw} for raw in items]
    queue = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulingQueue", "metadata": {"name": "ml"}, "spec": {}}
    snapshot = json.dumps({"kind": "List", "items": [*items, queue]})
    texts = {
        "dump.json": snapshot,
        "cluster.json.gz": snapshot,
        "policy.yaml": yaml.safe_dump(make_policy("p")),
        "pack.yaml": yaml.safe_dump(make_policy("pack", strategy={"type": "MostAllocated"})),
        "spread.yaml": yaml.safe_dump(make_policy("spread")),
        "pods.yaml": yaml.safe_dump(pod("new")),
        "nodes.csv.gz": NODES,
        "tasks.csv.gz": TASKS,
        "openb_node_list_gpu_node.csv.gz": NODES,
        "openb_pod_list_default.csv.gz": TASKS,
        "recording.jsonl.gz": "\n".join(map(json.dumps, recording)),
    }
    for name, text in texts.items():
        (path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    for file in (DOCS / "replay" / "policies").iterdir():
        (path / file.name).write_text(file.read_text())
    with SandboxThread() as sandbox:
        api = SandboxApi(sandbox.url)
        for raw in (node("node-1"), pod("waits", spec={"schedulerName": "nobody"})):
            api.request("POST", collection_path(raw), raw)
        sandbox.write_kubeconfig(path / "kubeconfig")
        yield path


def test_the_documents_have_commands():
    assert {command.split()[1] for _, command in COMMANDS} == {"snapshot", "simulate", "replay", "record"}


@pytest.mark.parametrize("name, command", COMMANDS, ids=[f"{name}: {command[:60]}" for name, command in COMMANDS])
def test_each_command_works(folder, monkeypatch, name, command):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    words = shlex.split(command.replace("--seconds 86400", "--seconds 0.1"))[1:]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def test_the_request_of_the_document_can_be_parsed():
    (text,) = re.findall(r'`(\{"hypotheses".*?\]\})`', (DOCS / "simulate.md").read_text())
    assert [hypothesis_of(raw, "x").drain for raw in json.loads(text)["hypotheses"]] == [(), ("node-1",)]


def test_the_scorecards_of_the_document_are_those_that_were_written():
    document = (DOCS / "replay.md").read_text()
    rows = {}
    for line in (DOCS / "replay" / "openb-16-nodes" / "scorecard.md").read_text().splitlines():
        head, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[head] = cells
    for shown, written in (
        ("never placed", "never placed"),
        ("waited more than a minute", "waited more than a minute"),
        ("longest wait", "waiting time, longest"),
        ("peak allocation of GPUs", "peak allocation of nvidia.com/gpu"),
        ("nodes in use, mean", "nodes in use, mean"),
    ):
        (line,) = re.findall(rf"^\| {shown} \|(.*)\|$", document, re.MULTILINE)
        found = [cell.strip().replace(" %", "%") for cell in line.split("|")]
        assert found == [cell.removesuffix(" of 16") for cell in rows[written]]


def test_the_picture_of_gangs_is_what_its_command_draws(monkeypatch, tmp_path):
    monkeypatch.chdir(DOCS.parent)
    (command,) = re.findall(r"^    podwright (simulate .*--picture.*)$", (DOCS / "gangs.md").read_text(), re.MULTILINE)
    words = shlex.split(command.replace("docs/gangs.svg", str(tmp_path / "gangs.svg")))
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "22 pods would get a node" in result.output
    assert (tmp_path / "gangs.svg").read_text() == (DOCS / "gangs.svg").read_text()
