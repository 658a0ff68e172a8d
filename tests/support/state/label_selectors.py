"""Labels and raw label selectors for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

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
