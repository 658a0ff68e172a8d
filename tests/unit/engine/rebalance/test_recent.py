"""Moves that count for an hour."""

from __future__ import annotations

from podwright.engine.rebalance.recent import RecentMoves


def test_in_no_hour_there_are_more_moves_than_count():
    recent, began = RecentMoves(), []
    for now in range(10_000, 30_000, 70):
        if recent.count(now) < 10:
            recent.add(now)
            began.append(now)
        assert sum(now - 3600 < each <= now for each in began) <= 10
    assert len(began) > 40


def test_moves_are_kept_as_spans_over_a_restart():
    recent = RecentMoves([(1000.0, 2), (900.0, 1), (8000.0, 3)])
    recent.add(1400.0)
    assert recent.spans(1500.0) == [(900.0, 3), (1200.0, 1)]
    assert recent.count(4799.0) == 4
    assert recent.count(4800.0) == 1
