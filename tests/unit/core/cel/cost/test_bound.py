"""The greatest cost of an expression, from the sizes that the variables' types declare."""

import pytest

from podwright.core.cel import types
from podwright.core.cel.cost.bound import greatest_cost
from podwright.core.cel.environment import Environment
from podwright.core.cel.errors import CelError, EvaluationError
from podwright.core.cel.values import MAX_UINT
from support.cel.generator import Generator
from support.cel.oracle import declared, decode
from support.cel.tables import VARIABLES as GENERATED

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
    ("text", "bound"),
    [
        pytest.param("x + 1", 2, id="arithmetic"),
        pytest.param("s == 'abc'", 2, id="an equality is bounded by the shorter side"),
        pytest.param("s.contains(s)", 102, id="a search is bounded by both"),
        pytest.param("s + s", 22, id="a sum of texts"),
        pytest.param("words.all(w, w.startsWith('ab'))", 27, id="a loop"),
        pytest.param("node.taints.exists(t, t.key == s)", 115, id="a loop over objects"),
        pytest.param("x > 1 && s.matches('a')", 14, id="the second term may not be evaluated"),
        pytest.param("x > 1 ? s.size() : 0", 4, id="one side of a condition"),
        pytest.param("[1, 2, 3].map(i, i * x).sum()", 69, id="a literal"),
    ],
)
def test_the_bound_follows_from_the_declared_sizes(environment, text, bound):
    assert greatest_cost(environment.compile(text).tree, VARIABLES) == bound


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
    assert greatest_cost(environment.compile(text).tree, VARIABLES) >= MAX_UINT // 100


def test_no_evaluation_costs_more():
    variables = {name: declared(kind) for name, kind in GENERATED.items()}
    environment, generator = Environment(variables), Generator(1)
    compared = bounded = 0
    for _ in range(1500):
        text, values = generator.expression(), generator.variables()
        try:
            program = environment.compile(text)
            cost = program.evaluate_with_cost({name: decode(value) for name, value in values.items()})[1]
        except (CelError, EvaluationError):
            continue
        bound = greatest_cost(program.tree, variables)
        assert cost <= bound, text
        compared += 1
        bounded += bound < 2**53
    assert bounded > compared * 0.8
    assert compared > 500


def test_the_bound_of_repeated_replacements_is_computed_at_once(environment):
    text = "s" + ".replace(s, s + s)" * 20
    assert greatest_cost(environment.compile(text).tree, VARIABLES) > 2**53
