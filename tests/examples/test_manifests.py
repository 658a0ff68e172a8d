"""Every file in manifests/examples is applied as it is, and its pods get the place that its policy says.

The world is in `example_places.py`; `PLACES` has what each file's pods must get, and a file that is not in it fails.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.control_plane.fixtures import empty
from support.examples.places import Place, real_place, sandbox_place
from support.objects import policies as files

pytestmark = pytest.mark.slow

FOLDER = kit.CHECKOUT / "manifests" / "examples"
WORKLOADS = sorted(path for name in ("workloads", "second-schedulers", "gangs") for path in (FOLDER / name).glob("*"))
GROUPS = kit.CHECKOUT / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
OPEN = {"empty-1", "used-memory", "used-both", "with-image"}
EMPTY = ["empty-1", "with-image"]
ZONES = {"empty-1": "a", "used-memory": "a", "used-both": "b", "with-image": "b"}

Holds = Callable[[Sequence[str]], bool]


def on(*names: str) -> Holds:
    """The pods are on these nodes, one each."""
    return lambda found: sorted(found) == sorted(names)


PLACES: dict[str, tuple[str, Holds]] = {
    "random-pod": ("random", lambda found: len(found) == 1 and set(found) <= OPEN),
    "namescore-pod": ("node-name", on("empty-1")),
    "web-deployment": ("default", lambda found: sorted(ZONES[name] for name in found) == ["a", "b"]),
    "bursty-deployment": ("least-allocated", on(*EMPTY)),
    "training-pods": ("most-allocated", on("gpu-half", "gpu-half", "gpu-free")),
    "report-pod": ("requested-to-capacity-ratio", on("used-both")),
    "lopsided-pod": ("balanced-allocation", on("used-memory")),
    "big-image-pod": ("custom", on("with-image")),
    "custom-scheduler": ("custom-scheduler", on("used-both")),
    "my-scheduler": ("my-scheduler", on(*EMPTY)),
    "sample-scheduler": ("sample-scheduler", lambda found: len(found) == 1 and found[0] in EMPTY),
    "training-gang": ("default", lambda found: len(found) == 3 and set(found) <= OPEN),
    "packed-gang": ("packed-gangs", lambda found: {ZONES[name] for name in found} == {"a"}),
}
"""By file: the policy that decides, and whether the nodes found are right."""
PENDING = {
    "waiting-gang": "minCount (4)",
    "pending-pod": "0/7 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), "
    "4 node(s) didn't match Pod's node affinity/selector. preemption: 0/7 nodes are available: ",
}
"""By file: how the event begins, of pods that are to wait."""
ELSEWHERE = {"workload-gang": "tests/integration/test_pod_groups.py"}
"""By file: where it is tried, of what needs an API server of its own."""
NAMESPACE_LABELS = {"training-pods": {"team": "ml"}}


@pytest.fixture(
    scope="module",
    params=[pytest.param("sandbox", id="sandbox"), pytest.param("real", id="real", marks=pytest.mark.control_plane)],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster with all policies of the examples in force."""
    if request.param == "sandbox":
        with sandbox_place(tmp_path_factory.mktemp("examples"), [files.load(files.CRD), files.load(GROUPS)]) as found:
            yield with_policies(found)
        return
    cluster = request.getfixturevalue("control_plane")
    empty(cluster.client)
    cluster.apply(GROUPS)
    with real_place(cluster) as found:
        yield with_policies(found)
    empty(cluster.client)


def with_policies(place: Place) -> Place:
    for path in files.EXAMPLES:
        place.apply(path, "")
    wait_until(lambda: all(active(raw) for raw in place.items(kit.POLICIES)), 30, "all policies are in force")
    return place


def active(raw: dict[str, Any]) -> bool:
    return kit.condition(raw, "Active").get("status") == "True"


@pytest.fixture
def namespace(place: Place, path: Path) -> Iterator[str]:
    """A namespace with the labels that the file asks for; what was applied is gone afterwards, and the operator knows."""
    name = f"examples-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": NAMESPACE_LABELS.get(path.stem, {})}
    place.api.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield name
    for kind in ("apps/v1/{}/deployments", "apps/v1/{}/replicasets", "scheduling.x-k8s.io/v1alpha1/{}/podgroups"):
        collection = f"/apis/{kind.format(f'namespaces/{name}')}"
        place.api.request("DELETE", collection, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    place.api.request("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
    place.settle()
    place.api.request("DELETE", f"/api/v1/namespaces/{name}")


def wanted(path: Path) -> int:
    """How many pods a file makes."""
    raws = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return sum(raw["spec"].get("replicas", 1) for raw in raws if raw["kind"] in ("Pod", "Deployment"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in WORKLOADS if path.stem in PLACES])
def test_the_pods_of_an_example_get_the_place_that_the_policy_says(place, namespace, path):
    policy, holds = PLACES[path.stem]
    place.apply(path, namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def bound() -> list[dict[str, Any]]:
        return [raw for raw in place.items(pods) if raw["spec"].get("nodeName")]

    wait_until(lambda: len(bound()) == wanted(path), 60, f"{wanted(path)} pods are bound")
    assert holds([raw["spec"]["nodeName"] for raw in bound()]), [raw["spec"]["nodeName"] for raw in bound()]
    assert {kit.decision(raw)["policy"] for raw in bound()} == {policy}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in WORKLOADS if path.stem in PENDING])
def test_a_pod_that_is_to_wait_says_why(place, namespace, path):
    place.apply(path, namespace)

    def notes() -> list[str]:
        found = place.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [event["note"] for event in found if event["reason"] == "FailedScheduling"]

    # Of a gang, the one that fits nowhere says why that is.
    wait_until(lambda: any(note.startswith(PENDING[path.stem]) for note in notes()), 30, "an event says why")
    raws = place.items(f"/api/v1/namespaces/{namespace}/pods")
    assert len(raws) == wanted(path)
    assert all("nodeName" not in raw["spec"] for raw in raws)


def test_every_example_is_tried_and_every_policy_decides():
    assert sorted(path.stem for path in WORKLOADS) == sorted([*PLACES, *PENDING, *ELSEWHERE])
    assert all(f"{name}.yaml" in (kit.CHECKOUT / where).read_text() for name, where in ELSEWHERE.items())
    assert {path.stem for path in files.EXAMPLES} <= {policy for policy, _ in PLACES.values()}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in (*WORKLOADS, *files.EXAMPLES)])
def test_every_example_says_what_it_is_for(path):
    assert path.suffix == ".yaml"
    assert path.read_text(encoding="utf-8").startswith("# ")
