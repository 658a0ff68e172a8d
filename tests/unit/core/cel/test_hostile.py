"""Expressions that are made to crash, to stall or to fill the memory: each is refused or ends at a limit."""

import tracemalloc

import pytest

from podwright.core.cel import types
from podwright.core.cel.environment import Environment
from podwright.core.cel.errors import CelError, CostLimitError, EvaluationError

LENGTH = 16_000
TEXT = "a" * 1000
VARIABLES = {"x": 1, "s": TEXT, "l": list(range(1000)), "m": {}}
NESTED = "".join(f"cel.bind(a{i + 1}, [a{i}, a{i}], " for i in range(14))
PEAK = 80 << 20


@pytest.fixture(scope="module")
def environment():
    return Environment(
        {"x": types.INT, "s": types.STRING, "l": types.list_of(types.INT), "m": types.map_of(types.STRING, types.DYN)}
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * LENGTH, id="open parentheses"),
        pytest.param("[" * (LENGTH // 2) + "]" * (LENGTH // 2), id="nested lists"),
        pytest.param("{" * LENGTH, id="open braces"),
        pytest.param("m" + ".a" * (LENGTH // 2), id="a chain of fields"),
        pytest.param("m" + "[0]" * (LENGTH // 3), id="a chain of indices"),
        pytest.param("x" + "+x" * (LENGTH // 2), id="a long sum"),
        pytest.param("x==1?1:" * (LENGTH // 7) + "1", id="a chain of conditions"),
        pytest.param("s" + ".trim()" * (LENGTH // 7), id="a chain of calls"),
        pytest.param("l.all(a," * 40 + "true" + ")" * 40, id="nested macros"),
        pytest.param("$%&" * (LENGTH // 3), id="no expression"),
        pytest.param("||".join(["nope"] * (LENGTH // 6)), id="thousands of errors"),
        pytest.param("//" + "a" * LENGTH, id="only a comment"),
        pytest.param("1" * LENGTH, id="a long number"),
        pytest.param("x" * 100_000, id="100 kB"),
        pytest.param("s.matches('(a{1000}){1000}')", id="a great regular expression"),
        pytest.param("s.matches('" + "(a|b)" * 2500 + "')", id="a long regular expression"),
        pytest.param("'%.999999999f'.format([1.0])", id="a great precision"),
    ],
)
def test_it_is_refused_with_a_reason(environment, text):
    with pytest.raises(CelError) as raised:
        environment.compile(text)
    assert raised.value.message
    assert len(raised.value.report(text)) > len(raised.value.message)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("true" + "&&true" * (LENGTH // 6), id="thousands of terms"),
        pytest.param("true" + "||false&&true" * (LENGTH // 13), id="thousands of mixed terms"),
        pytest.param("-" * LENGTH + "x == x", id="thousands of signs"),
        pytest.param("x in [" + "x," * (LENGTH // 2 - 10) + "x]", id="a long list"),
        pytest.param("{" + ",".join(f"{i}: 1" for i in range(LENGTH // 10)) + "}.size() > 1", id="a long map"),
        pytest.param("||".join(["l.exists(a,a>x)"] * (LENGTH // 17)), id="thousands of macros"),
        pytest.param("'" + "ü" * (LENGTH - 10) + "' != s", id="a long text"),
        pytest.param("\n" * LENGTH + "x == 1", id="thousands of lines"),
        pytest.param("!s.matches('(a*)*b')", id="a regular expression that backtracks elsewhere"),
        pytest.param("!'\\000\\u202e'.contains(s)", id="control characters"),
    ],
)
def test_it_is_evaluated(environment, text):
    assert environment.compile(text).evaluate(VARIABLES) is True


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("l.all(a, l.all(b, l.all(c, true)))", id="nested loops"),
        pytest.param("l.map(a, l.map(b, l.map(c, 1)))", id="nested lists"),
        pytest.param("lists.range(1000000).map(i, lists.range(1000000))", id="ranges"),
        pytest.param("s.findAll('').map(i, s.findAll('a'))", id="matches"),
        pytest.param("'%s'.format([l.map(i, l)])", id="a formatted list"),
        pytest.param("l.map(i, l.map(j, [j])).map(k, k.distinct())", id="values without a hash"),
        pytest.param(f"cel.bind(a0, l, {NESTED}a14 == a14" + ")" * 15, id="a nested list, compared"),
        pytest.param(
            f"cel.bind(a0, l, {NESTED}a14 in [a14, x == 1 ? a14 : []]" + ")" * 15, id="a nested list, searched"
        ),
        pytest.param(f"cel.bind(a0, l, {NESTED}a14.includes(1)" + ")" * 15, id="a nested list, walked through"),
    ],
)
def test_it_ends_at_a_limit(environment, text):
    program = environment.compile(text)
    with pytest.raises(CostLimitError):
        program.evaluate(VARIABLES)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("s.replace('a', s).replace('a', s)", id="replacements"),
        pytest.param("s.replace('', s).replace('', s)", id="insertions"),
        pytest.param("l.map(i, l.map(j, s)).map(k, k.join(s))", id="joined texts"),
        pytest.param(
            f"cel.bind(a0, [s], {NESTED}'%s'.format([[a14, a14, a14, a14]])" + ")" * 15, id="a nested list, formatted"
        ),
        pytest.param(f"cel.bind(a0, l, {NESTED}a14.flatten(20)" + ")" * 15, id="a nested list, flattened"),
    ],
)
def test_it_ends_before_the_memory_is_full(environment, text):
    program = environment.compile(text)
    tracemalloc.start()
    try:
        with pytest.raises(CostLimitError):
            program.evaluate(VARIABLES)
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


def test_of_thousands_of_issues_the_first_hundred_are_written(environment):
    text = "{1: 1," + ",".join(["'a': 'b'"] * 1600) + "}.size() > 0"
    with pytest.raises(CelError) as raised:
        environment.compile(text)
    assert len(raised.value.issues) == 3200
    assert raised.value.report(text).count("ERROR: ") == 100
    for shown in (raised.value.report(text), str(raised.value)):
        assert shown.count("expected type 'int' but found 'string'") == 100
        assert shown.endswith("3100 more errors were truncated")


def test_a_value_in_an_error_is_cut(environment):
    program = environment.compile(f"cel.bind(a0, l, {NESTED}dyn({{}})[string(a14.size()) + s]" + ")" * 15)
    with pytest.raises(EvaluationError, match="no such key: 2aaa") as raised:
        program.evaluate(VARIABLES)
    assert len(str(raised.value)) < 300
