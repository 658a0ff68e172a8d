"""`import podwright`: its names, what they give, and that the operator starts without them."""

import ast
import datetime
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import kubernetes.client
import kubernetes.config
import pytest

import podwright
from podwright.core.objects.errors import InvalidObjectError
from podwright.sandbox import SandboxThread
from podwright.simulator.explain.targets import TargetError
from podwright.simulator.hypotheses.hypothesis import HypothesisError
from podwright.simulator.manifests import ManifestError
from support.examples.clusters import SandboxApi
from support.examples.notebook import outputs
from support.objects.builders import make_node, make_pod

ROOT = Path(podwright.__file__).parent
EXAMPLE = ROOT.parents[1] / "examples" / "explain" / "cluster.yaml"
NAMES = [
    "Change",
    "Cluster",
    "Explanation",
    "Picture",
    "Policy",
    "Scorecard",
    "SimulationResult",
    "WorkloadExplanation",
    "explain",
    "plots",
    "replay",
    "simulate",
]
POLICY = """
apiVersion: podwright.dev/v1alpha1
kind: SchedulerPolicy
metadata: {name: pack}
spec: {schedulerName: podwright, strategy: {type: MostAllocated}}
"""


@pytest.fixture
def cluster():
    return podwright.Cluster.read(EXAMPLE)


def test_the_names_of_the_library():
    assert sorted(podwright.__all__) == sorted(["__version__", *NAMES])
    assert all(getattr(podwright, name).__name__ == name for name in NAMES)
    assert set(NAMES) <= set(dir(podwright))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'expalin'"):
        _ = podwright.expalin


def test_the_types_are_those_of_the_names():
    tree = ast.parse((ROOT / "__init__.pyi").read_text())
    typed = {
        (alias.asname, node.module) for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed == {(name, getattr(podwright, name).__module__) for name in NAMES}


def test_the_package_imports_nothing_of_the_library_by_itself():
    code = "import sys, podwright; print([name for name in sys.modules if name.startswith('podwright.') or name == 'numpy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_cluster_is_read_by_a_client_of_the_kubernetes_package(tmp_path):
    with SandboxThread() as sandbox:
        SandboxApi(sandbox.url).request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **make_node("a")})
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:
            found = podwright.Cluster.read(client)
    assert (found.nodes, found.problems) == (["a"], [])


async def test_a_cluster_is_read_where_an_event_loop_runs(tmp_path):
    with SandboxThread() as sandbox:
        assert podwright.Cluster.live(str(sandbox.write_kubeconfig(tmp_path / "kubeconfig"))).nodes == []


def test_a_cluster_tells_its_nodes_and_pods(cluster):
    assert cluster.nodes == ["node-1", "node-2", "gpu-1"]
    assert cluster.pods == {"shop/db-0": "node-1", "shop/cache-0": "node-2"}
    assert cluster.pending == ["shop/web-0"]
    assert cluster.problems == []


def test_a_pod_is_explained(cluster):
    found = podwright.explain(cluster, "pod/web-0", namespace="shop")
    assert isinstance(found, podwright.Explanation)
    assert found.cause.reason == "InsufficientResources"
    assert found.changes[0].text == "request 200m CPU less (5800m instead of 6)"
    with pytest.raises(TargetError, match="Pod shop/nobody"):
        podwright.explain(cluster, "pod/nobody", namespace="shop")


def test_what_if_leaves_the_cluster_as_it_was(cluster):
    found = podwright.simulate(cluster, add_nodes={"node-1": 1})
    assert isinstance(found, podwright.SimulationResult)
    assert [(landing.pod, landing.node) for landing in found.landed] == [("shop/web-0", "node-1-added-1")]
    assert cluster.pending == ["shop/web-0"]
    assert len(cluster.nodes) == 3
    with pytest.raises(HypothesisError, match="nobody"):
        podwright.simulate(cluster, drain=["nobody"])


def test_a_policy_is_tried_in_place_of_the_default(cluster):
    policy = podwright.Policy.parse(POLICY)
    assert (policy.name, policy.problem(cluster)) == ("pack", "")
    other = cluster.with_policies(policy)
    assert podwright.explain(other, "pod/web-0", namespace="shop").policy.name == "pack"
    assert podwright.explain(cluster, "pod/web-0", namespace="shop").policy.name == "built-in-default"
    assert len(other.with_policies(policy).snapshot.objects) == len(other.snapshot.objects)


def test_a_list_of_tasks_is_replayed_under_two_policies():
    folder = EXAMPLE.parents[1] / "library"
    cards = podwright.replay(
        folder / "tasks.csv",
        {"spread": [], "pack": [podwright.Policy.parse(POLICY)]},
        nodes=folder / "nodes.csv",
    )
    spread, pack = cards
    assert [card.policy for card in cards] == ["spread", "pack"]
    assert spread.arrived == pack.arrived == 300
    assert pack.nodes_in_use < spread.nodes_in_use
    drawn = podwright.plots(cards)
    assert {"allocation", "nodes", "waiting"} <= drawn.keys()
    assert drawn["nodes"]._repr_svg_().startswith("<svg")


def test_a_cluster_gives_the_nodes_of_a_replay(cluster):
    folder = EXAMPLE.parents[1] / "library"
    (card,) = podwright.replay(folder / "tasks.csv", {"default": []}, nodes=cluster)
    assert card.nodes == pytest.approx(3)


def test_a_bad_policy_says_what_is_wrong():
    policy = podwright.Policy.parse(POLICY.replace("MostAllocated", "Tetris"))
    assert "spec.strategy" in policy.problem()
    assert "pack" in podwright.Cluster.of([policy.raw]).problems[0]


@pytest.mark.parametrize(
    ("text", "error"), [("kind: Pod", InvalidObjectError), ("- :", ManifestError), ("", ManifestError)]
)
def test_a_text_without_a_policy_is_refused(text, error):
    with pytest.raises(error):
        podwright.Policy.parse(text)


# The page


def test_the_example_of_the_page_runs(monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLE.parents[2])
    runpy.run_path("examples/library/questions.py")
    output = capsys.readouterr().out
    for text in ("request 200m CPU less", "shop/web-0 node-1-added", "pack would be accepted", "pack@"):
        assert text in output
    page = (ROOT.parents[1] / "docs" / "library.md").read_text()
    first, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert first in Path("examples/library/questions.py").read_text()


def test_the_example_with_the_kubernetes_package_runs(tmp_path, monkeypatch, capsys):
    path = EXAMPLE.parents[1] / "library" / "live.py"
    with SandboxThread() as sandbox:
        SandboxApi(sandbox.url).request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **make_node("a")})
        kubeconfig = str(sandbox.write_kubeconfig(tmp_path / "kubeconfig"))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", kubeconfig)
        runpy.run_path(str(path))
    assert capsys.readouterr().out == "default/one-more a\n"
    page = (ROOT.parents[1] / "docs" / "library.md").read_text()
    assert re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1] in path.read_text()


def test_a_cluster_may_consist_of_types_of_the_kubernetes_package():
    made = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=datetime.UTC)
    node, pod = make_node("a"), make_pod("there", node="a")
    typed = [kubernetes.client.V1Node.from_dict(node), kubernetes.client.V1Pod.from_dict(pod)]
    typed[1].metadata.creation_timestamp = made
    cluster = podwright.Cluster.of(typed)
    assert (cluster.pods, cluster.problems) == ({"default/there": "a"}, [])


def test_the_page_lists_every_name():
    page = (ROOT.parents[1] / "docs" / "library.md").read_text()
    assert [name for name in NAMES if f"`{name}" not in page] == []


def test_the_notebook_shows_what_its_cells_give(monkeypatch):
    monkeypatch.chdir(EXAMPLE.parents[2])
    notebook = json.loads(Path("docs/library.ipynb").read_text())
    shown = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert outputs(notebook) == shown
    assert any("image/svg+xml" in output.get("data", {}) for cell in shown for output in cell)


def test_a_cluster_shows_how_many_objects_of_each_kind_it_has():
    nodes = [{"kind": "Node", **make_node(f"n{number}")} for number in range(300)]
    assert repr(podwright.Cluster.of([*nodes, {"kind": "Pod", **make_pod("a")}])) == "<Cluster: 300 Node, 1 Pod>"
    assert repr(podwright.Cluster.of([])) == "<Cluster: no objects>"


@pytest.mark.parametrize("argument", ["drain", "remove_nodes", "scale"])
def test_a_text_in_place_of_a_list_is_an_error_that_shows_the_list(argument):
    with pytest.raises(HypothesisError) as raised:
        podwright.simulate(podwright.Cluster.of([]), **{argument: "n-01"})
    assert str(raised.value) == f"{argument}: expected a list of texts, got one text: write {argument}=['n-01']"
