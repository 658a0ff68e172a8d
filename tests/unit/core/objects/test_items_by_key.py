"""No key stays without items, and no count stays at 0."""

from __future__ import annotations

from podwright.core.objects.items_by_key import count, drop


def test_a_key_goes_with_its_last_item():
    items = {"a": {1: None, 2: None}}

    drop(items, "a", 1)
    drop(items, "a", 3)
    drop(items, "b", 1)
    assert items == {"a": {2: None}}
    drop(items, "a", 2)
    assert not items


def test_a_count_goes_at_zero():
    counts: dict[str, int] = {}

    count(counts, "a", 2)
    count(counts, "a", -1)
    assert counts == {"a": 1}
    count(counts, "a", -1)
    assert not counts
