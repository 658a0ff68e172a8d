"""Tests of the helper that measures what calls leave in memory."""

import numpy as np

from support.state.allocations import bytes_left_by


def test_names_that_only_an_interpreter_cache_keeps_do_not_count():
    column = np.zeros(1)

    def set_often():
        between = []
        for number in range(3_000):
            column.flags.writeable = False  # NumPy makes the name "setflags" again
            between.append(f"name-{number:03}")  # so that the next one has another address

    assert bytes_left_by(set_often) < 2_000


def test_what_stays_counts():
    kept = []
    assert 100_000 < bytes_left_by(lambda: kept.append(bytes(100_000))) < 102_000
