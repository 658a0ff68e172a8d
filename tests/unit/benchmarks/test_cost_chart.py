"""The chart has one line for each workload, which rises with the cost."""

from xml.etree import ElementTree

from benchmarks.core.cost_chart import cost_chart


def test_each_workload_is_a_line_over_all_sizes():
    results = [
        {"workload": workload, "nodes": nodes, "decisions_per_s": 1e8 // (nodes * times)}
        for workload, times in (("plain <pods>", 1), ("others", 4))
        for nodes in (5_000, 100_000)
    ]
    svg = ElementTree.fromstring(cost_chart([*results, {"workload": "others", "cost_15000_to_1500": 2.0}]))
    lines = [each.get("points").split() for each in svg.iter("{http://www.w3.org/2000/svg}polyline")]
    ends = [[tuple(map(float, point.split(","))) for point in line] for line in lines]
    assert len(ends) == 2
    for (left, low), (right, high) in ends:
        assert left < right
        assert low > high > 0
    assert ends[1][1][1] < ends[0][1][1]
    assert "plain <pods>" in [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
