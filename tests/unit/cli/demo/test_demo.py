"""The demo's checks pass for correct placements and fail for wrong ones; its displays show every placement."""

from __future__ import annotations

import io

import orjson
import pytest
from rich.console import Console

from podwright.cli.demo import checks, picture
from podwright.cli.demo.command import summarise, svg
from podwright.cli.demo.display import PlainDisplay
from podwright.cli.demo.state import CheckResult, DemoPod, DemoState, reason
from podwright.engine.records.decision_annotation import ANNOTATION
from podwright.testing import node, pod

OURS = "demo"
REQUEST = {"cpu": 1000, "memory": 1 << 30}


def state_with(places, nodes=("a", "b", "c"), group="web", others=(), decisions=None):
    """Nodes of 4 CPUs and 4 GiB, each in its own zone; the demo's pods p0, p1, … on `places`; other pods on
    `others`.
    """
    state = DemoState()
    raws = []
    for i, place in enumerate(places):
        name = f"p{i}"
        state.pods[name] = DemoPod(name, group)
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
    state.set_cluster(infos, raws, OURS)
    return state


@pytest.mark.parametrize(
    ("places", "others", "holds"),
    [
        pytest.param("abc", "", True, id="one pod on each of three equal nodes"),
        pytest.param("aab", "", False, id="two on one node while another is empty"),
        pytest.param("bbc", "aa", True, id="all on the two nodes without other pods"),
        pytest.param("aab", "aa", False, id="two on a node that is already half full"),
    ],
)
def test_spread_pods_must_be_on_the_emptiest_nodes(places, others, holds):
    state = state_with(places, others=others)
    assert checks.emptiest(state, state.group("web"), REQUEST, 0).holds is holds


@pytest.mark.parametrize(
    ("place", "device", "named", "reserved_for", "holds"),
    [
        pytest.param("b", "gpu-0", ["gpu/b/gpu-0"], "p0", True, id="its own device"),
        pytest.param("a", "gpu-0", ["gpu/b/gpu-0"], "p0", False, id="on another node"),
        pytest.param("b", "gpu-0", ["gpu/b/gpu-0"], "p1", False, id="reserved for another pod"),
        pytest.param("b", "gpu-0", [], "p0", False, id="not named by the decision"),
        pytest.param("b", None, [], "p0", False, id="not allocated"),
    ],
)
def test_a_pod_with_a_claim_must_have_its_device(place, device, named, reserved_for, holds):
    decision = {"policy": "policy", "generation": 1, "node": place, "devices": named}
    state = state_with(place, group="gpu", decisions={"p0": decision})
    results = [{"driver": "gpu", "pool": "b", "device": device}] if device else []
    claim = {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": reserved_for}]}}
    (own,) = state.group("gpu")
    assert checks.has_device(own, claim, "b").holds is holds


def test_slack_tolerates_a_fuller_node():
    state = state_with("aab")
    assert checks.emptiest(state, state.group("web"), REQUEST, 0.3).holds


@pytest.mark.parametrize(
    ("places", "others", "holds"),
    [
        pytest.param("aaa", "", True, id="all on one node"),
        pytest.param("aaaab", "", True, id="a second node after the first is full"),
        pytest.param("aab", "", False, id="a second node while the first has room"),
        pytest.param("aab", "aa", True, id="a second node after other pods filled the first"),
    ],
)
def test_packed_pods_must_fill_one_node_before_the_next(places, others, holds):
    state = state_with(places, others=others)
    assert checks.packed(state, state.group("web"), REQUEST).holds is holds


@pytest.mark.parametrize(
    ("decision", "holds"),
    [
        pytest.param({"policy": "policy", "generation": 1, "node": "a"}, True, id="the expected decision"),
        pytest.param({"policy": "other", "generation": 1, "node": "a"}, False, id="another policy"),
        pytest.param({"policy": "policy", "generation": 2, "node": "a"}, False, id="another generation"),
        pytest.param({"policy": "policy", "generation": 1, "node": "b"}, False, id="a node that the pod is not on"),
        pytest.param({}, False, id="no decision"),
    ],
)
def test_the_policy_must_have_decided(decision, holds):
    state = state_with("a", decisions={"p0": decision})
    result = checks.decided_by(state.group("web"), "policy", 1)
    assert result.holds is holds
    assert ("p0" in result.found) is not holds


def test_pods_that_select_a_zone_must_be_in_it():
    state = state_with("ab")
    zone = {"topology.kubernetes.io/zone": "zone-a"}
    assert checks.selected(state, state.group("web")[:1], zone).holds
    result = checks.selected(state, state.group("web"), zone)
    assert not result.holds
    assert result.found == "not p1"


@pytest.mark.parametrize(
    ("place", "note", "holds"),
    [
        pytest.param("", "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3", True, id="pending with a reason for every node"),
        pytest.param("", "", False, id="pending without an event"),
        pytest.param("", "0/2 nodes are available: 2 Insufficient cpu.", False, id="a reason for two of three nodes"),
        pytest.param("", "0/3 nodes are available: 3 Too many pods.", False, id="another reason"),
        pytest.param("a", "0/3 nodes are available: 3 Insufficient cpu.", False, id="placed"),
    ],
)  # fmt: skip
def test_a_pod_that_fits_nowhere_must_stay_pending_with_a_reason(place, note, holds):
    own = DemoPod("too-big", "too-big", node=place, failure=note)
    assert checks.unplaced(own, 3).holds is holds


def test_an_overcommitted_node_fails_the_check():
    assert checks.not_overcommitted(state_with("aaaa")).holds
    result = checks.not_overcommitted(state_with("aaaaa"))
    assert not result.holds
    assert result.found == "a"


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        pytest.param(
            {"score": 9, "nodes": 3, "feasible": 3, "runnerUp": {"node": "b", "score": 7}},
            "score 9, runner-up b (7); 3/3 feasible",
            id="a clear winner",
        ),
        pytest.param(
            {"score": 9, "nodes": 3, "feasible": 2, "runnerUp": {"node": "b", "score": 9}, "rejected": {"NodeAffinity": 1}},
            "score 9, tied with b; 2/3 feasible, NodeAffinity rejected 1",
            id="a tie between two feasible nodes",
        ),
        pytest.param(
            {"nodes": 3, "feasible": 1, "rejected": {"NodeName": 2}},
            "the only feasible node; 1/3 feasible, NodeName rejected 2",
            id="only one feasible node",
        ),
    ],
)  # fmt: skip
def test_the_reason_for_a_placement(decision, text):
    assert reason(DemoPod("p", "web", "uid", "a", decision)) == text


def test_the_exit_status_is_1_if_a_check_fails_or_none_ran():
    state = state_with("ab")
    console = Console(file=io.StringIO(), width=100)
    state.results = [CheckResult("this", "so", holds=True)]
    assert summarise(console, state, 3) == 0
    state.results.append(CheckResult("that", "not so", holds=False))
    assert summarise(console, state, 3) == 1
    assert "FAIL that: not so" in console.file.getvalue()
    state.results = []
    assert summarise(console, state, 3) == 1


def test_plain_lines_report_each_placement_once():
    state = state_with("a", decisions={"p0": {"policy": "x", "generation": 0, "nodes": 1, "feasible": 1}})
    console = Console(file=io.StringIO(), width=40)
    display = PlainDisplay(console, state)
    display.update()
    display.update()
    assert console.file.getvalue() == "p0 -> a [x]: the only feasible node; 1/1 feasible\n"


@pytest.mark.parametrize("nodes", [pytest.param(3, id="few nodes"), pytest.param(60, id="more nodes than fit")])
@pytest.mark.parametrize("width", [pytest.param(80, id="80 columns"), pytest.param(160, id="160 columns")])
def test_the_live_picture_fits_the_terminal(nodes, width):
    names = [f"node-{i:04d}" for i in range(nodes)]
    plain = {"policy": "x", "generation": 1, "score": 1, "nodes": 1, "feasible": 1}
    state = state_with([names[0]] * 4 + [""], names, decisions={f"p{i}": plain for i in range(4)})
    console = Console(file=io.StringIO(), width=width)
    console.print(picture.live(state, "A step", width, 24))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
    assert "node-0000 ██████" in console.file.getvalue()


def test_the_svg_is_self_contained():
    plain = {"policy": "x", "generation": 1, "score": 1, "nodes": 1, "feasible": 1}
    text = svg(state_with("a", decisions={"p0": plain}))
    assert "font-face" not in text
    assert "url(http" not in text
    assert text.startswith("<svg")
