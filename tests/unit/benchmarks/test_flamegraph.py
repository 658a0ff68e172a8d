"""What is made of samples of stacks."""

import xml.etree.ElementTree as ET

import pytest
from benchmarks.flamegraph import flame_graph, read_stacks, top

STACKS = read_stacks(
    ["main (a.py:1);work (a.py:2) 3", "main (a.py:1);work (a.py:2);<lambda> (b.py:9) 5", "idle (c.py:1) 2"]
)
SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg):
    """Width and depth from the bottom by function."""
    root = ET.fromstring(svg)
    return {
        group.find(f"{SVG}title").text.split(": ")[0]: (
            float(group.find(f"{SVG}rect").get("width")),
            float(group.find(f"{SVG}rect").get("y")),
        )
        for group in root.iter(f"{SVG}g")
    }


def test_equal_stacks_are_added_up_and_names_may_have_spaces():
    assert read_stacks(["a (b c.py:1);d 2", "a (b c.py:1);d 3", ""]) == {("a (b c.py:1)", "d"): 5}


def test_a_line_that_is_no_stack_is_refused():
    with pytest.raises(ValueError):
        read_stacks(["a;b many"])


def test_a_box_is_as_wide_as_its_share_and_stands_on_its_caller():
    found = boxes(flame_graph(STACKS, "a < b"))
    everything = found["all"][0]
    assert found["main (a.py:1)"][0] == pytest.approx(0.8 * everything)
    assert found["<lambda> (b.py:9)"][0] == pytest.approx(0.5 * everything)
    assert found["<lambda> (b.py:9)"][1] < found["work (a.py:2)"][1] < found["main (a.py:1)"][1] < found["all"][1]


def test_the_text_ranks_by_own_time_and_by_time_with_callees():
    own, below = top(STACKS).split("by those")
    assert own.splitlines()[3].split() == ["50.0%", "50.0%", "<lambda>", "(b.py:9)"]
    assert below.splitlines()[1].split() == ["0.0%", "80.0%", "main", "(a.py:1)"]


def test_a_function_that_calls_itself_is_counted_once():
    assert "100.0% 100.0%  f (a.py:1)" in top(read_stacks(["f (a.py:1);f (a.py:1) 4"]))
