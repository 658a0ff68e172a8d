"""The estimate of the cost, from the sizes that the variables' types declare."""

import pytest

from podwright.core.cel import types
from podwright.core.cel.environment import Environment
from podwright.core.cel.values import MAX_UINT

TAINT = types.object_of("podwright.Taint", {"key": types.STRING.sized(63), "free": types.STRING})
VARIABLES = {
    "x": types.INT,
    "s": types.STRING.sized(100),
    "free": types.STRING,
    "words": types.list_of(types.STRING.sized(10), size=5),
    "node": types.object_of(
        "podwright.Node", {"taints": types.list_of(TAINT, size=8), "any": types.list_of(types.INT)}
    ),
}


@pytest.fixture(scope="module")
def environment():
    return Environment(VARIABLES)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        pytest.param("x + 1", 2, 2, id="arithmetic"),
        pytest.param("s == 'abc'", 2, 2, id="an equality is bounded by the shorter side"),
        pytest.param("s.contains(s)", 2, 102, id="a search is bounded by both"),
        pytest.param("s + s", 2, 22, id="a sum of texts"),
        pytest.param("words.all(w, w.startsWith('ab'))", 2, 27, id="a loop"),
        pytest.param("node.taints.exists(t, t.key == s)", 3, 115, id="a loop over objects"),
        pytest.param("x > 1 && s.matches('a')", 2, 14, id="the second term may not be evaluated"),
        pytest.param("x > 1 ? s.size() : 0", 2, 4, id="one side of a condition"),
        pytest.param("[1, 2, 3].map(i, i * x).sum()", 69, 69, id="a literal"),
    ],
)
def test_the_estimate_is_that_of_cel_go(environment, text, low, high):
    assert tuple(environment.compile(text).estimated_cost) == (low, high)


@pytest.mark.parametrize(
    "text",
    [
        "free.contains(free)",
        "node.any.all(i, i > x)",
        "node.taints.exists(t, t.free.contains(t.free))",
        "free.split('').map(c, c).size() > 1",
    ],
)
def test_what_has_no_bound_is_recognised(environment, text):
    assert environment.compile(text).estimated_cost.high == MAX_UINT
