"""Each file in manifests/examples is applied unchanged, and its pods must run where its policy wants them.

`support.examples.clusters` defines the cluster. `EXPECTED` lists the correct nodes for each file; an unlisted file
fails.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from podwright.testing import wait_until
from support.control_plane import operator_process
from support.control_plane.fixtures import empty
from support.examples.clusters import ExampleCluster, real_cluster, sandbox_cluster
from support.objects import policies as files

pytestmark = pytest.mark.slow

FOLDER = operator_process.CHECKOUT / "manifests" / "examples"
WORKLOADS = sorted(path for name in ("workloads", "second-schedulers", "gangs") for path in (FOLDER / name).glob("*"))
GROUPS = operator_process.CHECKOUT / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
OPEN = {"empty-1", "used-memory", "used-both", "with-image"}
EMPTY = ["empty-1", "with-image"]
GPUS = {"gpu-free", "gpu-half"}
ZONES = {"empty-1": "a", "used-memory": "a", "used-both": "b", "with-image": "b"}

NodesCheck = Callable[[Sequence[str]], bool]


def on(*names: str) -> NodesCheck:
    """There is one pod for each of these names, on the node of that name."""
    return lambda found: sorted(found) == sorted(names)


EXPECTED: dict[str, tuple[str, NodesCheck]] = {
    "random-pod": ("random", lambda found: len(found) == 1 and set(found) <= OPEN),
    "namescore-pod": ("node-name", on("empty-1")),
    "web-deployment": ("default", lambda found: sorted(ZONES[name] for name in found) == ["a", "b"]),
    "bursty-deployment": ("least-allocated", on(*EMPTY)),
    "training-pods": ("most-allocated", on("gpu-half", "gpu-half", "gpu-free")),
    "report-pod": ("requested-to-capacity-ratio", on("used-both")),
    "measured-pod": ("load-aware", on("used-memory")),
    "lopsided-pod": ("balanced-allocation", on("used-memory")),
    "tiered-deployment": ("rules", lambda found: sorted(ZONES[name] for name in found) == ["a", "a", "b", "b"]),
    "big-image-pod": ("custom", on("with-image")),
    "filler-pod": ("best-fit", on("used-both")),
    "inference-pods": ("least-fragmentation", lambda found: len(found) == 2 and len(set(found) & GPUS) == 1),
    "custom-scheduler": ("custom-scheduler", on("used-both")),
    "my-scheduler": ("my-scheduler", on(*EMPTY)),
    "sample-scheduler": ("sample-scheduler", lambda found: len(found) == 1 and found[0] in EMPTY),
    "training-gang": ("default", lambda found: len(found) == 3 and set(found) <= OPEN),
    "packed-gang": ("packed-gangs", lambda found: {ZONES[name] for name in found} == {"a"}),
}
"""By file: the policy that decides, and a check of the pods' nodes."""
PENDING = {
    "waiting-gang": "minCount (4)",
    "pending-pod": "0/7 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), "
    "4 node(s) didn't match Pod's node affinity/selector. preemption: 0/7 nodes are available: ",
}
"""By file: the start of the event's note, for pods that must stay pending."""
COVERED_ELSEWHERE = {"workload-gang": "tests/integration/test_pod_groups.py"}
"""By file: the test that covers it, for examples that need a specially configured API server."""
NAMESPACE_LABELS = {"training-pods": {"team": "ml"}}


@pytest.fixture(
    scope="module",
    params=[pytest.param("sandbox", id="sandbox"), pytest.param("real", id="real", marks=pytest.mark.control_plane)],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleCluster]:
    """A cluster on which all policies of the examples are active."""
    if request.param == "sandbox":
        with sandbox_cluster(tmp_path_factory.mktemp("examples"), [files.load(files.CRD), files.load(GROUPS)]) as found:
            yield with_policies(found)
        return
    control_plane = request.getfixturevalue("control_plane")
    empty(control_plane.client)
    control_plane.apply(GROUPS)
    with real_cluster(control_plane) as found:
        yield with_policies(found)
    empty(control_plane.client)


def with_policies(cluster: ExampleCluster) -> ExampleCluster:
    for path in files.EXAMPLES:
        cluster.apply(path, "")
    wait_until(
        lambda: all(active(raw) for raw in cluster.items(operator_process.POLICIES)), 30, "all policies are active"
    )
    return cluster


def active(raw: dict[str, Any]) -> bool:
    return operator_process.condition(raw, "Active").get("status") == "True"


@pytest.fixture
def namespace(cluster: ExampleCluster, path: Path) -> Iterator[str]:
    """A namespace with the labels that the file needs. Afterwards, its objects are deleted from the API and the
    operator's cache.
    """
    name = f"examples-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": NAMESPACE_LABELS.get(path.stem, {})}
    cluster.api.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield name
    cluster.settle(lambda: delete_workloads(cluster, name))
    cluster.api.request("DELETE", f"/api/v1/namespaces/{name}")


def delete_workloads(cluster: ExampleCluster, namespace: str) -> None:
    """May be called repeatedly: the controllers create again what they have not yet seen deleted."""
    for kind in ("apps/v1/{}/deployments", "apps/v1/{}/replicasets", "scheduling.x-k8s.io/v1alpha1/{}/podgroups"):
        collection = f"/apis/{kind.format(f'namespaces/{namespace}')}"
        cluster.api.request("DELETE", collection, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    cluster.api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})


def pod_count(path: Path) -> int:
    """The number of pods that a file creates."""
    raws = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return sum(raw["spec"].get("replicas", 1) for raw in raws if raw["kind"] in ("Pod", "Deployment"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in WORKLOADS if path.stem in EXPECTED])
def test_the_policy_of_an_example_places_its_pods(cluster, namespace, path):
    policy, holds = EXPECTED[path.stem]
    cluster.apply(path, namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def bound() -> list[dict[str, Any]]:
        return [raw for raw in cluster.items(pods) if raw["spec"].get("nodeName")]

    wait_until(lambda: len(bound()) == pod_count(path), 60, f"{pod_count(path)} pods are bound")
    assert holds([raw["spec"]["nodeName"] for raw in bound()]), [raw["spec"]["nodeName"] for raw in bound()]
    assert {operator_process.decision(raw)["policy"] for raw in bound()} == {policy}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in WORKLOADS if path.stem in PENDING])
def test_a_pending_example_has_an_event_with_the_reason(cluster, namespace, path):
    cluster.apply(path, namespace)

    def notes() -> list[str]:
        found = cluster.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [event["note"] for event in found if event["reason"] == "FailedScheduling"]

    # In a gang, only the member that does not fit has this event.
    wait_until(lambda: any(note.startswith(PENDING[path.stem]) for note in notes()), 30, "an event gives the reason")
    raws = cluster.items(f"/api/v1/namespaces/{namespace}/pods")
    assert len(raws) == pod_count(path)
    assert all("nodeName" not in raw["spec"] for raw in raws)


def test_every_example_is_tested_and_every_policy_decides():
    assert sorted(path.stem for path in WORKLOADS) == sorted([*EXPECTED, *PENDING, *COVERED_ELSEWHERE])
    assert all(
        f"{name}.yaml" in (operator_process.CHECKOUT / where).read_text() for name, where in COVERED_ELSEWHERE.items()
    )
    assert {path.stem for path in files.EXAMPLES} <= {policy for policy, _ in EXPECTED.values()}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in (*WORKLOADS, *files.EXAMPLES)])
def test_every_example_starts_with_a_comment(path):
    assert path.suffix == ".yaml"
    assert path.read_text(encoding="utf-8").startswith("# ")
