"""The row cache keeps the most recently used arrays, up to its bound."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from podwright.core.plugins.resources import row_cache
from podwright.core.plugins.resources.row_cache import RowCache
from podwright.core.state.columns.change_log import ChangeLog
from support.objects.builders import make_node
from support.plugins.kit import make_cache


class Constant:
    """A formula whose value is the same for each node."""

    def __init__(self, value):
        self.value = value

    def all(self, out):
        out[:] = self.value

    def some(self, slots):
        return np.full(len(slots), self.value)

    def one(self, node):
        return self.value


@pytest.fixture
def arrays():
    return RowCache(make_cache([make_node(f"n{i}") for i in range(4)]), np.int64)


def keys_made(arrays, keys):
    """The keys whose formula was made when the arrays of `keys` were read in turn. Checks the values, too."""
    made = []

    def formula(key):
        made.append(key)
        return Constant(key)

    for key in keys:
        assert arrays.get(key, lambda key=key: formula(key)).tolist() == [key] * 4
    return made


@pytest.mark.parametrize(
    ("limit", "value"),
    [pytest.param("MAX_ARRAYS", 3, id="in number"), pytest.param("MAX_BYTES", 3 * 4 * 8, id="in bytes")],
)
def test_the_arrays_are_bounded(arrays, monkeypatch, limit, value):
    monkeypatch.setattr(row_cache, limit, value)
    assert keys_made(arrays, range(8)) == list(range(8))
    assert keys_made(arrays, [7, 6, 5]) == []
    assert keys_made(arrays, [4]) == [4]


def test_as_many_templates_are_kept_on_100_000_nodes_as_on_few():
    table = SimpleNamespace(size=100_000, usage_changes=ChangeLog())
    arrays = RowCache(SimpleNamespace(table=table), np.int64)
    made = []
    for key in [*range(row_cache.MAX_ARRAYS)] * 2:
        arrays.get(key, lambda key=key: made.append(key) or Constant(key))
    assert made == [*range(row_cache.MAX_ARRAYS)]


def test_the_least_recently_used_array_is_evicted(arrays, monkeypatch):
    monkeypatch.setattr(row_cache, "MAX_ARRAYS", 3)
    assert keys_made(arrays, [1, 2, 3, 1, 4]) == [1, 2, 3, 4]
    assert keys_made(arrays, [1, 3, 4]) == []
    assert keys_made(arrays, [2]) == [2]


def test_arrays_that_a_decision_uses_together_read_the_same_changes_once():
    read = []

    class Log(ChangeLog):
        __slots__ = ()

        def since(self, seq):
            read.append(seq)
            return super().since(seq)

    log = Log()
    table = SimpleNamespace(size=1000, usage_changes=log, nodes=[None] * 1000)
    caches = [RowCache(SimpleNamespace(table=table), np.int64) for _ in range(3)]
    formula = Constant(7)
    for cache in caches:
        cache.get("a", lambda: formula)
    log.extend([*range(20), *range(20)])
    formula.value = 8
    assert [np.flatnonzero(cache.get("a", lambda: formula) == 8).tolist() for cache in caches] == [[*range(20)]] * 3
    assert read == [0]
