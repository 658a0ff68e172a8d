"""The garbage collector while modules are imported."""

import gc

import pytest

from podwright.cli.imports import uncollected


@pytest.mark.parametrize("enabled", [True, False], ids=["it was on", "it was off"])
def test_nothing_is_collected_meanwhile_and_the_collector_is_as_before_afterwards(enabled):
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if before else gc.disable()


def test_what_was_there_at_the_end_is_not_looked_at_again():
    with uncollected():
        held = [[number] for number in range(1_000)]
    assert gc.get_freeze_count() >= len(held)


def test_a_failed_import_leaves_the_collector_on():
    with pytest.raises(ImportError), uncollected():
        raise ImportError("no such module")
    assert gc.isenabled()
