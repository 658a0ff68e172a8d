"""Expressions from their text to their value, cost or refusal."""

import pytest

from podwright.core.cel import types
from podwright.core.cel.checking.declarations import Overload
from podwright.core.cel.environment import Environment, Library
from podwright.core.cel.errors import CancelledError, CelError, CostLimitError, EvaluationError

TAINT = types.object_of("podwright.Taint", {"key": types.STRING, "effect": types.STRING})
NODE = types.object_of(
    "podwright.Node",
    {
        "name": types.STRING,
        "labels": types.map_of(types.STRING, types.STRING),
        "taints": types.list_of(TAINT),
        "nested": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    },
)
VARIABLES = {
    "x": 5,
    "words": ["a", "b"],
    "node": {"name": "n1", "labels": {"tier": "gold"}, "taints": [{"key": "k", "effect": "NoSchedule"}], "nested": {}},
}


@pytest.fixture(scope="module")
def environment():
    return Environment({"x": types.INT, "words": types.list_of(types.STRING), "node": NODE})


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        pytest.param("x * 2 > 9 && node.labels['tier'] == 'gold'", True, 7, id="operators and fields"),
        pytest.param("node.labels['none'] == 'b' || true", True, 4, id="or absorbs an error"),
        pytest.param("node.taints.all(t, t.key == 'k')", True, 9, id="a macro over a list"),
        pytest.param("[1, 2, 3].map(i, i * x).filter(j, j > 5)", [10, 15], 79, id="map and filter"),
        pytest.param("[1, 2, 3].exists(i, i / 0 == 1 || i == 3)", True, 28, id="a macro goes on after an error"),
        pytest.param("cel.bind(y, x + 1, y * y)", 36, 5, id="a binding is evaluated once"),
        pytest.param("cel.bind(y, 1 / 0, x)", 5, 1, id="a binding that is not used is not evaluated"),
        pytest.param("node.?labels.?none.orValue('x')", "x", 2, id="an optional field that is missing"),
        pytest.param("has(node.labels.tier) && !has(node.labels.none)", True, 5, id="presence tests"),
        pytest.param("has(node.nested) && has(node.name)", True, 2, id="a presence test of a map of maps"),
        pytest.param(
            "'' == string(1 / 0) || true", True, 2, id="an equality with an error costs what its shorter side does"
        ),
        pytest.param(
            "node.labels[?string(1 / 0)].hasValue() || true", True, 5, id="an optional index that fails costs 0"
        ),
        pytest.param("[1 / 0][0] == 1 || true", True, 13, id="an index of what fails costs 0"),
        pytest.param("optional.of(dyn([1])).a.b.hasValue() || true", True, 3, id="so do the fields after one"),
        pytest.param("has(node.nested)", True, 1, id="a presence test of a map of maps, alone"),
        pytest.param("timestamp('0001-01-01T00:00:00Z').getFullYear('-05:30')", 0, 1, id="the year before the first"),
        pytest.param("timestamp('9999-12-31T23:59:59Z').getFullYear('+05:30')", 10000, 1, id="the year after the last"),
        pytest.param("quantity('1k').add(1).asInteger()", 1001, 3, id="quantities"),
        pytest.param("quantity('1000m').isInteger()", False, 2, id="milli-units are no integer"),
        pytest.param("semver('1.10.0').isGreaterThan(semver('1.9.0-rc.1'))", True, 3, id="versions"),
        pytest.param("1 < 2.5 && 2u > 1", True, 2, id="numbers of different types are compared"),
        pytest.param("x in [1, 5]", True, 1, id="membership in a constant list costs nothing"),
        pytest.param("x in [1, x]", True, 14, id="membership in another list"),
        pytest.param("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}, 6, id="a macro with two variables"),
        pytest.param("'abc'.matches('a.c')", True, 1, id="a regular expression"),
        pytest.param("string(1.5e30) + string(true)", "1.5e+30true", 2, id="constant conversions cost nothing"),
        pytest.param("{dyn(true): 'a', dyn(1): 'b'}[true]", "a", 2, id="true and 1 are different keys"),
        pytest.param("dyn({1: 'b'})[1.0]", "b", 2, id="1 and 1.0 are the same key"),
        pytest.param("{[1]: 1, [1]: 2}.size()", 2, 1, id="each list is a key of its own"),
        pytest.param("{{}: 'a'}.map(k, k == {})", [True], 14, id="a map as a key is the value of a loop"),
        pytest.param(
            "cel.bind(l, [x], [l in {l: 1}, [x] in {l: 1}])", [True, False], 97, id="only the list itself is found"
        ),
        pytest.param("{optional.of([1]): 1}.size()", 1, 32, id="an optional value as a key"),
        pytest.param("{[1]: 1} == {[1]: 1}", False, 1, id="maps with lists as keys differ"),
        pytest.param("[].sort() == [].reverse()", True, 22, id="an empty list is sorted"),
        pytest.param(
            "quantity('1e400').add(quantity('1')).asApproximateFloat() > 1e308", True, 5, id="a quantity beyond doubles"
        ),
        pytest.param("timestamp('2020-01-01T07:00:00Z').getHours('Local')", 7, 1, id="the local zone is UTC"),
        pytest.param("'\\\\Q\\\\C'.matches('\\\\Q\\\\C')", True, 1, id="quoted text in a regular expression"),
        pytest.param("[1, 2].map(node, node + 1)", [2, 3], 29, id="a macro's variable hides one of the environment"),
        pytest.param("[dyn(1), dyn(1.0), dyn(2u), dyn(2)].distinct()", [1, 2], 43, id="1 and 1.0 are not distinct"),
        pytest.param(
            "timestamp('2020-01-01T00:00:00Z').getHours('99999999999999:00')",
            4,
            1,
            id="a zone beyond 64 bits, as in Go",
        ),
        pytest.param("timestamp('2020-01-01T00:00:00Z').getMinutes('1:75')", 15, 1, id="more minutes than an hour has"),
        pytest.param(
            "timestamp('2020-01-01T00:00:00Z').getFullYear('2562047:00')", 2312, 1, id="the zone farthest to the east"
        ),
    ],
)
def test_an_expression_has_this_value_and_cost(environment, text, value, cost):
    assert environment.compile(text).evaluate_with_cost(VARIABLES) == (value, cost)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("node.labels['none'] == 'b'", "no such key: none", id="a missing key"),
        pytest.param(
            "words[dyn(-9223372036854775808.0)]",
            "unsupported index value -9.223372036854776e+18 in list",
            id="a double that is no index",
        ),
        pytest.param("words[2]", "index out of bounds: 2", id="an index beyond the list"),
        pytest.param("x / (x - 5)", "division by zero", id="a division by zero"),
        pytest.param("x + 9223372036854775807", "integer overflow", id="an overflow"),
        pytest.param("uint(x - 6)", "unsigned integer overflow", id="a negative number as uint"),
        pytest.param("optional.none().value()", "optional.none() dereference", id="a missing optional value"),
        pytest.param("dyn(x) == 5 && dyn(x)", "no such overload", id="logic over other values than bool"),
        pytest.param(
            "quantity('1') == quantity('0').add(1)", "no such overload", id="a computed quantity on the right"
        ),
        pytest.param("dyn(false).all(i, i)", "got 'types.Bool', expected iterable type", id="a macro over no list"),
        pytest.param("semver('1.2')", "No Major.Minor.Patch elements found", id="no version"),
    ],
)
def test_an_evaluation_fails_with_the_text_of_cel_go(environment, text, error):
    program = environment.compile(text)
    with pytest.raises(EvaluationError) as raised:
        program.evaluate(VARIABLES)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        pytest.param("node.lables", 1, 5, "undefined field 'lables'", id="a misspelt field"),
        pytest.param("x +\n 'a'", 1, 3, "found no matching overload for '_+_' applied to '(int, string)'", id="types"),
        pytest.param(
            "true &&\n  nod.name == 'a'", 2, 6, "undeclared reference to 'nod.name' (in container '')", id="line 2"
        ),
        pytest.param(
            "'abc'.matches('a(')", 1, 14, "error parsing regexp: missing ): a(: `a(`", id="a regular expression"
        ),
        pytest.param(
            "x == 1 ||\n int('a') == 1", 2, 5, "type conversion error from 'string' to 'int'", id="a constant"
        ),
        pytest.param("'ü' == words[0] && y", 1, 20, "undeclared reference to 'y' (in container '')", id="not ASCII"),
        pytest.param(
            "words.map(x, '%d'.format([x]))",
            1,
            27,
            "error during formatting: decimal clause can only be used on integers, was given string",
            id="a macro's variable with the name of one of the environment",
        ),
        pytest.param(
            "duration(x) > duration('1s')",
            1,
            9,
            "found no matching overload for 'duration' applied to '(int)'",
            id="a duration of a number",
        ),
        pytest.param("1e400 > 1.0", 0, 0, "invalid double literal", id="a literal beyond doubles"),
        pytest.param("1.0 > -1e400", 1, 7, "invalid double literal", id="a literal below doubles"),
        pytest.param(
            "'x'.findAll('\\\\C', 2)",
            1,
            12,
            "error parsing regexp: invalid escape sequence: `\\C`",
            id="a byte of a regular expression",
        ),
        pytest.param(
            "google.protobuf.Timestamp{seconds: 1} == null",
            0,
            0,
            "values of type google.protobuf.Timestamp cannot be written as literals",
            id="a message",
        ),
        pytest.param("(" * 500 + "x" + ")" * 500, 0, 0, None, id="parentheses, 500 deep"),
        pytest.param("[" * 500 + "]" * 500, 0, 0, None, id="lists, 500 deep"),
        pytest.param("+".join(["x"] * 500), 0, 0, None, id="a sum of 500 terms"),
        pytest.param("x == " + "1" * 100_000, 0, 0, None, id="an expression of more than 100,000 code points"),
        pytest.param("'\ud800' == ''", 1, 2, None, id="a surrogate"),
    ],
)
def test_a_refusal_names_the_place(environment, text, line, column, message):
    with pytest.raises(CelError) as raised:
        environment.compile(text)
    issue = raised.value.issues[0]
    assert message is None or (issue.line, issue.column, issue.message) == (line, column, message)
    assert issue.message


def test_an_issue_that_only_follows_from_another_one_is_left_out(environment):
    with pytest.raises(CelError) as raised:
        environment.compile("node.lables[0] && x == 'a'")
    assert [issue.message for issue in raised.value.issues] == [
        "undefined field 'lables'",
        "found no matching overload for '_==_' applied to '(int, string)'",
    ]
    with pytest.raises(CelError) as raised:
        environment.compile("node.lables.exists(l, l == 'a')")
    assert len(raised.value.issues) == 1


def test_a_field_has_its_own_type_or_none(environment):
    assert environment.compile("node.nested['a']['b']").result_type == types.QUANTITY
    assert environment.compile("node.taints[0]").result_type.name == "podwright.Taint"
    assert environment.compile("dyn(x)").result_type == types.DYN
    assert environment.compile("words.map(x, [x])").result_type == types.list_of(types.list_of(types.STRING))
    assert environment.compile("words.map(x, '%s'.format([x]))[0]").evaluate(VARIABLES) == "a"


def test_the_cost_is_bounded(environment):
    program = environment.compile("words.map(i, words.map(j, words.all(k, k != i + j)))")
    cost = program.evaluate_with_cost(VARIABLES)[1]
    assert program.evaluate_with_cost(VARIABLES, cost)[1] == cost
    with pytest.raises(CostLimitError):
        program.evaluate(VARIABLES, cost - 1)


def test_no_operator_absorbs_the_end_of_an_evaluation(environment):
    program = environment.compile("words.all(i, i == 'b' || i == 'c') || true")
    with pytest.raises(CostLimitError):
        program.evaluate(VARIABLES, 3)


def test_a_loop_can_be_interrupted(environment):
    program = environment.compile("words.all(i, true) || true")
    variables = {**VARIABLES, "words": ["a"] * 1000}
    asked = []
    assert program.evaluate(variables, interrupted=lambda: bool(asked.append(1))) is True
    with pytest.raises(CancelledError, match="operation interrupted"):
        program.evaluate(variables, interrupted=lambda: True)
    assert len(asked) == 10


@pytest.mark.parametrize("start", ["words", "'0123456789'"])
def test_memory_is_bounded(environment, start):
    doubled = "".join(f"cel.bind(a{i + 1}, a{i} + a{i}, " for i in range(25)) + "a25.size()" + ")" * 25
    program = environment.compile(f"cel.bind(a0, {start}, {doubled})")
    with pytest.raises(CostLimitError, match="limit exceeded"):
        program.evaluate(VARIABLES, 10**12)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        pytest.param(
            "labels['12'].find('[a-z]+') == 'x'", 3, id="a constant pattern: the call that fails costs nothing"
        ),
        pytest.param("labels['12'].matches('[a-z]+')", 2, id="matches, too"),
        pytest.param("labels['12'].find('a').find('b') == 'x'", 3, id="nor do calls around it"),
    ],
)
def test_the_cost_of_a_regular_expression_over_what_fails_is_that_of_cel_go(text, cost):
    program = Environment({"labels": types.map_of(types.STRING, types.STRING)}).compile(text)
    variables = {"labels": {"p": "[a-z]+"}}
    with pytest.raises(EvaluationError, match="no such key: 12"):
        program.evaluate(variables, cost)
    with pytest.raises(CostLimitError):
        program.evaluate(variables, cost - 1)


def test_what_a_function_raises_is_the_error_of_the_expression():
    """A mistake in a function must not end whatever evaluates the expression."""

    def divide(_value):
        return 1 // 0

    overload = Overload("broken", "broken_int", (types.INT,), types.INT)
    environment = Environment({"x": types.INT}, [Library((overload,), {"broken": divide}, {})])
    with pytest.raises(EvaluationError, match="internal error: ZeroDivisionError"):
        environment.compile("broken(x) == 0").evaluate(VARIABLES)


def test_what_compiling_an_expression_raises_is_the_reason_to_refuse_it():
    with pytest.raises(CelError, match="internal error: AttributeError"):
        Environment({"x": "no type"}).compile("x > 0")
