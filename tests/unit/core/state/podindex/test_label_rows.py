"""LabelRows: a selector evaluated on many sets of labels at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.selectors import LabelSelector, Requirement
from podwright.core.state.podindex.label_rows import LabelRows
from support.state.label_selectors import LABELS, SELECTORS


@given(
    first=st.lists(LABELS, max_size=8),
    then=st.lists(LABELS, max_size=3),
    raws=st.lists(SELECTORS, min_size=1, max_size=4),
)
def test_a_selector_matches_the_same_rows_as_one_by_one(first, then, raws):
    rows = LabelRows()
    selectors = [interned_selector(raw, "selector") for raw in raws]
    numbers = []
    for added in (first, then):
        numbers += [rows.append(labels) for labels in added]
        known = [*first, *then][: len(numbers)]
        for selector in selectors:
            assert rows.matching(selector).tolist() == [selector.matches(labels) for labels in known]
    assert numbers == list(range(rows.count))


class _Counted(str):
    """A key that counts how often it is looked up."""

    hashed = 0
    __slots__ = ()

    def __hash__(self):
        _Counted.hashed += 1
        return super().__hash__()


def _asking_for(key):
    return LabelSelector((Requirement(key, "Exists", frozenset()),))


@pytest.mark.parametrize("known", [10, 1_000])
def test_a_selector_costs_the_same_however_many_keys_others_have_asked_for(known):
    rows = LabelRows()
    rows.append({})
    rows.index(_asking_for(_Counted(f"key-{number}")) for number in range(known))
    _Counted.hashed = 0
    rows.matching(_asking_for("key-1"))
    assert _Counted.hashed == 0
