"""The report of `podwright evaluate --pod`, for terminals of any width and for pipes."""

import click
import pytest

from podwright.cli.reports.pod import report

PLUGINS = ("NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread")


def answer(nodes, rejected=(), **fields):
    """`nodes`: the total by name; `rejected`: names."""
    verdicts = {name: {"feasible": True} for name in nodes}
    verdicts |= {
        name: {"feasible": False, "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu", "Insufficient memory"]}
        for name in rejected
    }
    highest = max(nodes.values(), default=0)
    scored = {
        "scores": {plugin: {name: total - i for name, total in nodes.items()} for i, plugin in enumerate(PLUGINS)},
        "total": nodes,
        "best": [name for name, total in nodes.items() if total == highest],
    }
    policy = {"name": "gold", "generation": 2}
    return {"nodes": verdicts, **(scored if nodes else {"message": "no node"}), "policy": policy, **fields}


def lines(answer, width=None, top=None):
    return [click.unstyle(line) for line in report(answer, width, top)]


LONG = "ip-10-0-123-231.eu-central-1.compute.internal.example.com"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200, None])
def test_no_name_is_cut_and_headers_stay_apart(width):
    printed = lines(answer({LONG: 300, "b": 200}, ["c"]), width)
    text = "\n".join(printed)
    for name in (LONG, *PLUGINS, "NodeResourcesFit: Insufficient"):
        assert name in text
    assert "…" not in text
    header = printed[0].split()
    assert header[:2] == ["NODE", "TOTAL"]
    assert set(header[2:]) in ({*PLUGINS, "REJECTED", "BY"}, set(), {"SCORES,", "OR", "REJECTED", "BY"})


@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_fit_the_terminal(width):
    assert max(map(len, lines(answer({LONG: 300, "b": 200}, ["c"]), width))) <= width


def test_scores_that_do_not_fit_as_columns_are_listed_beside_the_node():
    printed = lines(answer({"a": 300, "b": 200}), 72)
    assert printed[:4] == [
        "NODE  TOTAL  SCORES, OR REJECTED BY",
        "a       300  NodeResourcesBalancedAllocation 300, NodeResourcesFit 299,",
        "             PodTopologySpread 298",
        "b       200  NodeResourcesBalancedAllocation 200, NodeResourcesFit 199,",
    ]


def test_a_score_stays_beside_its_plugin():
    printed = lines(answer({"a": 300, "b": 200}), 67)
    assert printed[1:3] == [
        "a       300  NodeResourcesBalancedAllocation 300,",
        "             NodeResourcesFit 299, PodTopologySpread 298",
    ]


@pytest.mark.parametrize("width", [65, 75, 85, 95, 105])
def test_the_scores_can_be_searched_for(width):
    printed = "\n".join(lines(answer({"a": 300, "b": 200}), width))
    assert "NodeResourcesFit 299" in printed or "300               299                298" in printed


def test_a_pipe_gets_one_line_for_each_node():
    printed = lines(answer({LONG: 300, "b": 200}, ["c"]))
    assert printed[3].split() == ["c", "NodeResourcesFit:", "Insufficient", "cpu;", "Insufficient", "memory"]
    assert printed[4] == ""


def test_top_shows_the_first_nodes_and_counts_the_others():
    nodes = {f"n{i}": 500 - i for i in range(1200)}
    printed = lines(answer(nodes, [f"r{i}" for i in range(30)]), 120, top=2)
    assert [line.split()[0] for line in printed[1:5]] == ["n0", "n1", "r0", "r1"]
    assert printed[5:8] == [
        "and 1,198 more feasible nodes",
        "and 28 more infeasible nodes:",
        "  28 by NodeResourcesFit: Insufficient cpu; Insufficient memory",
    ]


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        pytest.param(1, "The pod would go to n0.", id="one node"),
        pytest.param(3, "The pod would go to n0, n1 or n2, which have the same total.", id="a few"),
        pytest.param(
            5000,
            "The pod would go to one of 5,000 nodes with the same total, such as n0, n1, n2, n3 or n4.",
            id="thousands",
        ),
    ],
)
def test_the_last_sentence_names_a_few_of_the_best_nodes(count, sentence):
    assert lines(answer({f"n{i}": 7 for i in range(count)}), 120)[-1] == sentence


def test_a_gated_pod_is_not_said_to_be_placed():
    gated = {"plugin": "SchedulingGates", "reasons": ["waiting for scheduling gates: [quota]"]}
    assert lines(answer({"a": 1}, gated=gated))[-2:] == [
        "The pod is gated, and not scheduled: SchedulingGates: waiting for scheduling gates: [quota].",
        "Without that, it would go to a.",
    ]
    assert lines(answer({}, ["a"], gated=gated))[-1] == "Without that: no node"


def test_a_plugin_that_fails_before_any_node_is_filtered_is_reported():
    assert lines({"error": "plugin P failed", "policy": {"name": "gold", "generation": 1}})[-1] == "plugin P failed"
