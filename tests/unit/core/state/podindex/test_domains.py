"""Domains spread values by domain to the nodes."""

from __future__ import annotations

import numpy as np
import pytest

from podwright.core.state.podindex.domains import Domains


@pytest.mark.parametrize(
    ("of_node", "count"),
    [
        pytest.param([0, 1, 2, 3], 4, id="each row its own"),
        pytest.param([0, 1, 2], 5, id="more domains than rows"),
        pytest.param([1, 0, 2, 3], 4, id="in another order"),
        pytest.param([0, 1, 2, 3], 3, id="a row without the label"),
        pytest.param([0, 0, 1, 1], 2, id="shared"),
        pytest.param([], 0, id="no rows"),
    ],
)
def test_each_node_gets_the_value_of_its_domain(of_node, count):
    rows = np.array(of_node, np.intp)
    domains = Domains(count, of_node=rows, counted=rows, empty=count)
    values = np.arange(count + 1) * 10
    assert domains.per_node(values).tolist() == [10 * domain for domain in of_node]
    assert domains.per_node(values, lambda column: column[1:3]).tolist() == [10 * domain for domain in of_node[1:3]]
