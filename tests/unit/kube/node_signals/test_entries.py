"""Entries: the objects in a list of a JSON text are read whole, however the text is cut, and what is no such text is
refused.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.kube.node_signals.entries import MAX_DEPTH, MAX_ENTRY, Entries, MalformedError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.sampled_from(['"', "}{][", "\\", "items"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def read(text, *path, size=None):
    entries = Entries(path)
    found = []
    step = size or max(len(text), 1)
    for at in range(0, len(text), step):
        found += entries.feed(text[at : at + step])
    entries.end()
    return found


def refusal(text, *path, size=None):
    with pytest.raises(MalformedError) as raised:
        read(text, *path, size=size)
    return str(raised.value)


@given(
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=4),
    st.dictionaries(st.text(max_size=4).filter(lambda key: key != "data"), JSON, max_size=3),
    st.integers(1, 40),
    st.booleans(),
)
def test_entries_are_those_of_the_whole_text_however_it_is_cut(entries, around, size, ascii_):
    text = json.dumps({**around, "data": {"type": "x", "result": entries}}, ensure_ascii=ascii_).encode()
    assert read(text, "data", "result", size=size) == entries


@given(st.binary(max_size=200), st.integers(1, 50))
def test_whatever_comes_is_read_or_refused(text, size):
    entries = Entries(("items",))
    try:
        for at in range(0, len(text), size):
            [*entries.feed(text[at : at + size])]
        entries.end()
    except MalformedError:
        pass


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the answer ends early"),
        (b"hello", "the answer ends early"),
        (b'{"items": [{"a": 1}', "the answer ends early"),
        (b'{"items": [{"a": "1', "the answer ends early"),
        (b'{"others": []}', "the answer has no items"),
        (b'{"items": {}}', "the answer has no items"),
        (b'[{"items": [{}]}]', "the answer has no items"),
        (b'{"items": [{]}', "the answer is not JSON"),
        (b'{"items": [{"a": NaN}]}', "an entry is not JSON"),
        (b'{"items": []}{"items": []}', "the answer is not one JSON object"),
        (b"[" * (MAX_DEPTH + 1), "the answer is nested too deeply"),
        (b'{"items": [{"a": "' + b"x" * MAX_ENTRY + b'"}]}', "an entry is too long"),
        (b'{"' + b"x" * (MAX_ENTRY + 1), "an entry is too long"),
    ],
)
def test_other_texts_are_refused(text, problem):
    assert problem in refusal(text, "items")
    if len(text) < 100:
        assert problem in refusal(text, "items", size=1)


def test_lists_elsewhere_are_passed_over():
    text = b'{"a": {"items": [{"x": 1}]}, "b": ["items", [{"x": 2}]], "items": [{"x": 3}, [{"x": 4}], "items", {}]}'
    assert read(text, "items") == [{"x": 3}, {}]


def test_memory_is_bounded_while_a_long_text_is_read():
    entries = Entries(("items",))
    [*entries.feed(b'{"items": [')]
    count = 0
    for _ in range(1000):
        count += len([*entries.feed((b'{"a": "' + b"x" * 1000 + b'"},') * 2)])
    assert count == 2000
    assert entries.held < MAX_ENTRY
