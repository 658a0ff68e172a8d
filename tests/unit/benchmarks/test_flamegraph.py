"""Stack samples become a flame graph and a list of functions."""

import xml.etree.ElementTree as ET

import pytest
from benchmarks.flamegraph import flame_graph, read_stacks, top

STACKS = read_stacks(
    ["main (a.py:1);work (a.py:2) 3", "main (a.py:1);work (a.py:2);<lambda> (b.py:9) 5", "idle (c.py:1) 2"]
)
SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg):
    """Width and y position of each box, by function."""
    root = ET.fromstring(svg)
    return {
        group.find(f"{SVG}title").text.split(": ")[0]: (
            float(group.find(f"{SVG}rect").get("width")),
            float(group.find(f"{SVG}rect").get("y")),
        )
        for group in root.iter(f"{SVG}g")
    }


def test_equal_stacks_are_added_up_and_function_names_may_contain_spaces():
    assert read_stacks(["a (b c.py:1);d 2", "a (b c.py:1);d 3", ""]) == {("a (b c.py:1)", "d"): 5}


def test_a_malformed_line_is_rejected():
    with pytest.raises(ValueError):
        read_stacks(["a;b many"])


def test_a_box_is_as_wide_as_its_share_of_samples_and_lies_above_its_caller():
    found = boxes(flame_graph(STACKS, "a < b"))
    everything = found["all"][0]
    assert found["main (a.py:1)"][0] == pytest.approx(0.8 * everything)
    assert found["<lambda> (b.py:9)"][0] == pytest.approx(0.5 * everything)
    assert found["<lambda> (b.py:9)"][1] < found["work (a.py:2)"][1] < found["main (a.py:1)"][1] < found["all"][1]


def test_functions_are_ranked_by_own_samples_and_by_samples_with_callees():
    own, with_callees = top(STACKS).split("sorted by the latter")
    assert own.splitlines()[3].split() == ["50.0%", "50.0%", "<lambda>", "(b.py:9)"]
    assert with_callees.splitlines()[1].split() == ["0.0%", "80.0%", "main", "(a.py:1)"]


def test_a_recursive_function_is_counted_once_per_sample():
    assert "100.0% 100.0%  f (a.py:1)" in top(read_stacks(["f (a.py:1);f (a.py:1) 4"]))
