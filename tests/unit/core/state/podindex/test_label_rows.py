"""LabelRows: a selector evaluated on many sets of labels at once."""

from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.affinity import interned_selector
from podwright.core.state.podindex.label_rows import LabelRows

KEYS = st.sampled_from(["app", "tier", "track"])
VALUES = st.sampled_from(["a", "b", "c", ""])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": v},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["a", "b", "", "nobody's"]), min_size=1, max_size=3, unique=True),
    ),
    st.builds(lambda k, o: {"key": k, "operator": o}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.one_of(
    st.none(),
    st.builds(
        lambda labels, expressions: {"matchLabels": labels, "matchExpressions": expressions},
        st.dictionaries(KEYS, VALUES, max_size=1),
        st.lists(EXPRESSIONS, max_size=3),
    ),
)


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
