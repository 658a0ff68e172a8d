"""Tolerations in great number answer as each of them would alone, in a time that does not depend on their number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.taints import Taint, parse_tolerations
from support.costs.call_counts import calls_of

EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
VALUES = ["", "v", "0", "5", "-5", "05", "+5", "5 ", "1_0", "٣", "9" * 63]
KEYS = ["", "a", "b"]

tolerations = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
            "value": st.sampled_from(VALUES),
            "effect": st.sampled_from(["", *EFFECTS]),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(tolerations, st.booleans())
def test_many_tolerations_answer_as_each_alone(wanted, compare):
    filler = [{"key": f"other-{i}", "operator": "Exists"} for i in range(20)]
    few = [parse_tolerations([item], "") for item in wanted]
    many = parse_tolerations([*wanted, *filler], "")
    for taint in (Taint(key, value, effect) for key in KEYS for value in VALUES for effect in EFFECTS):
        expected = any(alone.tolerate(taint, compare=compare) for alone in few)
        assert many.tolerate(taint, compare=compare) is expected


@pytest.mark.parametrize("operator", ["Equal", "Exists", "Gt", "Lt"])
def test_a_taint_is_looked_up_among_many_tolerations(operator):
    def calls(size):
        items = [{"key": f"k{i % 50}", "operator": operator, "value": str(i)} for i in range(size)]
        found = parse_tolerations(items, "")
        return calls_of(lambda: found.tolerate(Taint("k1", "none", "NoSchedule"), compare=True))

    assert calls(2000) == calls(200)
