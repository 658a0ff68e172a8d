"""The demo's expectations: each holds where it should, and fails where pods are elsewhere than the policy says."""

from __future__ import annotations

import io

import orjson
import pytest
from rich.console import Console

from podwright.cli.demo import checks, picture
from podwright.cli.demo.command import summarise, svg
from podwright.cli.demo.scene import DemoPod, Finding, Scene, why
from podwright.cli.demo.stage import PlainStage
from podwright.engine.binding.decision_annotation import ANNOTATION
from podwright.testing import node, pod

OURS = "demo"
REQUEST = {"cpu": 1000, "memory": 1 << 30}


def scene_of(places, nodes=("a", "b", "c"), group="web", others=(), decisions=None):
    """Nodes of four CPUs and 4 GiB in one zone each, our pods p0, p1, … on `places`, and others' pods."""
    scene = Scene()
    raws = []
    for i, place in enumerate(places):
        name = f"p{i}"
        scene.pods[name] = DemoPod(name, group)
        raw = pod(name, OURS, cpu="1", memory="1Gi", **({"nodeName": place} if place else {}))
        raw["metadata"]["uid"] = name
        decision = (decisions or {}).get(name, {"policy": "policy", "generation": 1, "node": place})
        raw["metadata"]["annotations"] = {ANNOTATION: orjson.dumps(decision).decode()} if place else {}
        raws.append(raw)
    for i, place in enumerate(others):
        raw = pod(f"other{i}", "elsewhere", cpu="1", memory="1Gi", nodeName=place)
        raw["metadata"]["uid"] = f"other{i}"
        raws.append(raw)
    infos = [node(n, cpu="4", memory="4Gi", labels={"topology.kubernetes.io/zone": f"zone-{n}"}) for n in nodes]
    scene.set_cluster(infos, raws, OURS)
    return scene


@pytest.mark.parametrize(
    ("places", "others", "holds"),
    [
        pytest.param("abc", "", True, id="one pod on each of three equal nodes"),
        pytest.param("aab", "", False, id="two on one node while another is empty"),
        pytest.param("bbc", "aa", True, id="a node that others use is left alone"),
        pytest.param("aab", "aa", False, id="a node that others use is chosen all the same"),
    ],
)
def test_spread_pods_are_on_the_emptiest_nodes(places, others, holds):
    scene = scene_of(places, others=others)
    assert checks.emptiest(scene, scene.group("web"), REQUEST, 0).holds is holds


def test_slack_forgives_a_fuller_node():
    scene = scene_of("aab")
    assert checks.emptiest(scene, scene.group("web"), REQUEST, 0.3).holds


@pytest.mark.parametrize(
    ("places", "others", "holds"),
    [
        pytest.param("aaa", "", True, id="all on one node"),
        pytest.param("aaaab", "", True, id="a second node when the first is full"),
        pytest.param("aab", "", False, id="a second node while the first has room"),
        pytest.param("aab", "aa", True, id="a first node that others have filled"),
    ],
)
def test_packed_pods_fill_one_node_before_the_next(places, others, holds):
    scene = scene_of(places, others=others)
    assert checks.packed(scene, scene.group("web"), REQUEST).holds is holds


@pytest.mark.parametrize(
    ("decision", "holds"),
    [
        pytest.param({"policy": "policy", "generation": 1, "node": "a"}, True, id="as expected"),
        pytest.param({"policy": "other", "generation": 1, "node": "a"}, False, id="another policy"),
        pytest.param({"policy": "policy", "generation": 2, "node": "a"}, False, id="another generation"),
        pytest.param({"policy": "policy", "generation": 1, "node": "b"}, False, id="another node than the pod's"),
        pytest.param({}, False, id="no decision at all"),
    ],
)
def test_the_decision_must_be_that_of_the_policy(decision, holds):
    scene = scene_of("a", decisions={"p0": decision})
    finding = checks.decided_by(scene.group("web"), "policy", 1)
    assert finding.holds is holds
    assert ("p0" in finding.found) is not holds


def test_pods_that_select_a_zone_must_be_there():
    scene = scene_of("ab")
    zone = {"topology.kubernetes.io/zone": "zone-a"}
    assert checks.selected(scene, scene.group("web")[:1], zone).holds
    finding = checks.selected(scene, scene.group("web"), zone)
    assert not finding.holds
    assert finding.found == "not so for p1"


@pytest.mark.parametrize(
    ("place", "note", "holds"),
    [
        pytest.param("", "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3", True, id="pending, and it says why"),
        pytest.param("", "", False, id="pending without an event"),
        pytest.param("", "0/2 nodes are available: 2 Insufficient cpu.", False, id="not all nodes were looked at"),
        pytest.param("", "0/3 nodes are available: 3 Too many pods.", False, id="another reason"),
        pytest.param("a", "0/3 nodes are available: 3 Insufficient cpu.", False, id="placed"),
    ],
)  # fmt: skip
def test_a_pod_that_fits_nowhere_must_wait_and_say_why(place, note, holds):
    own = DemoPod("too-big", "too-big", node=place, why=note)
    assert checks.unplaced(own, 3).holds is holds


def test_an_overcommitted_node_is_found():
    assert checks.not_overcommitted(scene_of("aaaa")).holds
    finding = checks.not_overcommitted(scene_of("aaaaa"))
    assert not finding.holds
    assert finding.found == "a"


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        pytest.param(
            {"score": 9, "nodes": 3, "feasible": 3, "runnerUp": {"node": "b", "score": 7}},
            "score 9, next b (7); 3/3 feasible",
            id="a clear winner",
        ),
        pytest.param(
            {"score": 9, "nodes": 3, "feasible": 2, "runnerUp": {"node": "b", "score": 9}, "rejected": {"NodeAffinity": 1}},
            "score 9, tied with b; 2/3 feasible, NodeAffinity rejected 1",
            id="a tie among those that were not rejected",
        ),
        pytest.param(
            {"score": 0, "nodes": 3, "feasible": 1, "rejected": {"NodeName": 2}},
            "score 0, no other was feasible; 1/3 feasible, NodeName rejected 2",
            id="the only one",
        ),
    ],
)  # fmt: skip
def test_a_decision_is_told_in_a_line(decision, text):
    assert why(DemoPod("p", "web", "uid", "a", decision)) == text


def test_the_exit_status_is_1_if_one_expectation_does_not_hold():
    scene = scene_of("ab")
    console = Console(file=io.StringIO(), width=100)
    scene.findings = [Finding("this", "so", holds=True)]
    assert summarise(console, scene, 3) == 0
    scene.findings.append(Finding("that", "not so", holds=False))
    assert summarise(console, scene, 3) == 1
    assert "FAIL that: not so" in console.file.getvalue()
    scene.findings = []
    assert summarise(console, scene, 3) == 1


def test_plain_lines_tell_each_placement_once():
    scene = scene_of("a", decisions={"p0": {"policy": "x", "generation": 0, "score": 1, "nodes": 1, "feasible": 1}})
    console = Console(file=io.StringIO(), width=40)
    stage = PlainStage(console, scene)
    stage.update()
    stage.update()
    assert console.file.getvalue() == "p0 -> a [x]: score 1, no other was feasible; 1/1 feasible\n"


@pytest.mark.parametrize("nodes", [pytest.param(3, id="few nodes"), pytest.param(60, id="more nodes than are shown")])
@pytest.mark.parametrize("width", [pytest.param(80, id="80 columns"), pytest.param(160, id="160 columns")])
def test_the_live_picture_fits_a_terminal(nodes, width):
    names = [f"node-{i:04d}" for i in range(nodes)]
    plain = {"policy": "x", "generation": 1, "score": 1, "nodes": 1, "feasible": 1}
    scene = scene_of([names[0]] * 4 + [""], names, decisions={f"p{i}": plain for i in range(4)})
    console = Console(file=io.StringIO(), width=width)
    console.print(picture.live(scene, width, 24))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
    assert "node-0000 ██████" in console.file.getvalue()


def test_the_recorded_picture_loads_nothing():
    plain = {"policy": "x", "generation": 1, "score": 1, "nodes": 1, "feasible": 1}
    text = svg(scene_of("a", decisions={"p0": plain}))
    assert "font-face" not in text
    assert "url(http" not in text
    assert text.startswith("<svg")
