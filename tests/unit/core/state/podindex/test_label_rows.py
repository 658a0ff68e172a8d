"""LabelRows: a selector evaluated on many sets of labels at once."""

from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.affinity import interned_selector
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
