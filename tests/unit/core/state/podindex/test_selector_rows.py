"""SelectorRows: many selectors evaluated on one set of labels at once."""

from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.affinity import interned_selector
from podwright.core.state.podindex.selector_rows import SelectorRows
from support.state.label_selectors import LABELS, SELECTORS


@given(
    first=st.lists(SELECTORS, max_size=8),
    then=st.lists(SELECTORS, max_size=3),
    removed=st.sets(st.integers(0, 7)),
    labels=st.lists(LABELS, min_size=1, max_size=4),
)
def test_labels_match_the_same_selectors_as_one_by_one(first, then, removed, labels):
    rows = SelectorRows()
    known = []
    for added in (first, then):
        for raw in added:
            selector = interned_selector(raw, "selector")
            assert rows.append(selector) == len(known)
            known.append(selector)
        for each in labels:
            assert rows.matching(each).tolist() == [
                row for row, selector in enumerate(known) if selector is not None and selector.matches(each)
            ]
        for row in removed:
            if row < len(known):
                rows.remove(row)
                known[row] = None
    assert len(rows) == len(known)
