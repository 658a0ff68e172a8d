"""Guesses at the intended name of a misspelt one."""

from __future__ import annotations

import pytest

from podwright.core.objects.similar_names import did_you_mean, similar_name


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param("nod-1", ["node-1", "other"], "node-1", id="a letter is missing"),
        pytest.param("nodee-1", ["node-1", "other"], "node-1", id="a letter too many"),
        pytest.param("nude-1", ["node-1", "other"], "node-1", id="a wrong letter"),
        pytest.param("laod", ["load"], "load", id="two letters are swapped"),
        pytest.param("gp", ["gpu"], "gpu", id="a short name"),
        pytest.param("node-12", ["node-1", "node-22", "node-21"], "node-1", id="of equally near names, the first"),
        pytest.param("node-12x", ["nodes-12", "node-12"], "node-12", id="the nearest, wherever it is"),
        pytest.param("podwrite", ["podwright"], "podwright", id="three edits"),
        pytest.param("NodeResouceFits", ["NodeResourcesFit"], "NodeResourcesFit", id="two edits in a long name"),
        pytest.param("a" * 250 + "b", ["a" * 251], "a" * 251, id="names that are as long as they may be"),
        pytest.param("x" + "a" * 250, ["a" * 251], "a" * 251, id="long names that differ at the start"),
        pytest.param("gpu", ["node-1", "other"], "", id="nothing is like it"),
        pytest.param("gpu", ["cpu-fast", "gp", "g"], "gp", id="what is far off is left out"),
        pytest.param("web", ["job", "wb-1", "wwb1"], "", id="two edits are too many for a short name"),
        pytest.param("batch-scheduler", ["podwright-scheduler"], "", id="only the second words agree"),
        pytest.param("default-scheduler", ["default-controller"], "", id="only the first words agree"),
        pytest.param("pool-a-7f3c", ["pool-a-9b1e"], "", id="only the prefixes agree"),
        pytest.param("n" * 64 + "web", ["n" * 64 + "database"], "", id="long names that differ at the end"),
        pytest.param("ab" * 120, ["ba" * 120], "", id="long names without a common end"),
        pytest.param("x", [], "", id="nothing is known"),
        pytest.param("", ["a"], "", id="no name"),
        pytest.param("x", ["y", "xy"], "", id="a name of one letter"),
    ],
)
def test_the_most_similar_name(name, known, expected):
    assert similar_name(name, known) == expected
    assert did_you_mean(name, iter(known)) == (f"; did you mean {expected!r}?" if expected else "")


def test_only_the_first_thousand_names_are_compared():
    known = (f"{number}-{'n' * 240}" for number in range(100_000))
    assert similar_name("n" * 253, known) == ""
    assert next(known).startswith("1000-")
