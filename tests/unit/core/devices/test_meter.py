"""Costly selectors: a search that evaluates them times out, and the next attempt knows what was evaluated."""

from __future__ import annotations

import pytest

from podwright.core.devices.allocator import allocator_of
from podwright.core.devices.errors import SearchTimeoutError
from podwright.core.devices.verdicts import FITS, TOO_FEW, SearchLimits
from podwright.core.objects.devices.claims import claim_spec_of
from podwright.core.state.cache import Cache
from podwright.core.state.deadline import TookLongError
from support.objects.builders import make_node
from support.objects.devices import exactly, make_claim, make_class, make_device, make_slice, selector
from support.plugins.kit import make_cache

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
LONG = ".all(a, ".join([TEN] * 4) + ".all(a, a > 0" + ")" * 4
"""Takes about 111 points of an evaluation."""
DEVICES = 12


def cluster() -> Cache:
    cache = make_cache([make_node("a")])
    cache.set_object("DeviceClass", make_class("gpu"))
    devices = [make_device(f"d{i}", attributes={"index": i}) for i in range(DEVICES)]
    cache.set_object("ResourceSlice", make_slice("s", devices, node="a"))
    return cache


def costly(index: int, **fields):
    """A request for the device with this number, whose selector is as costly on each device."""
    text = f'{LONG} && device.attributes["gpu.example.com"].index == {index}'
    return make_claim("c", exactly(selectors=[selector(text)], **fields))


def code(cache: Cache, claim, limits: SearchLimits) -> int:
    cache.devices.index.refresh()
    allocator = allocator_of(cache)
    return allocator.verdicts(allocator.problem([claim_spec_of(claim["spec"])])).code(0, limits)


def evaluated(cache: Cache, claim) -> int:
    (request,) = allocator_of(cache).problem([claim_spec_of(claim["spec"])]).claims[0].requests
    matcher = request.asks[0].matcher
    assert matcher is not None
    return sum(result > 0 for result in matcher.results())


@pytest.mark.parametrize("fields", [{}, {"allocationMode": "All"}], ids=["one device", "all devices"])
@pytest.mark.parametrize("limits", [SearchLimits(3_000, None), SearchLimits(None, 3_000)], ids=["timeout", "no pause"])
def test_a_search_times_out_and_the_next_one_knows_what_was_evaluated(fields, limits):
    cache, claim, known = cluster(), costly(DEVICES - 1, **fields), [0]
    while known[-1] < DEVICES:
        try:
            assert code(cache, claim, limits) == FITS
        except SearchTimeoutError:
            known.append(evaluated(cache, claim))
            assert known[-1] > known[-2]
        else:
            break
    assert len(known) > 2
    with pytest.raises(SearchTimeoutError, match="a"):
        code(cluster(), claim, limits)


def test_a_search_without_a_limit_evaluates_everything():
    cache = cluster()
    assert code(cache, costly(99), SearchLimits(None, None)) == TOO_FEW
    assert evaluated(cache, costly(99)) == DEVICES


def test_selectors_of_which_one_costs_more_than_the_limit_are_evaluated_one_by_one():
    """None of them is evaluated again on a device that has passed it."""
    cache = cluster()
    texts = [f'{LONG} && device.attributes["gpu.example.com"].index >= {least}' for least in (0, -1, -2)]
    claim, timeouts = make_claim("c", exactly(selectors=[selector(text) for text in texts])), 0
    while timeouts < 9:
        try:
            assert code(cache, claim, SearchLimits(None, 100)) == FITS
        except SearchTimeoutError:
            timeouts += 1
        else:
            break
    assert timeouts == len(texts)


def test_an_attempt_does_not_begin_what_is_estimated_to_take_far_too_long():
    cache, claim = cluster(), costly(DEVICES - 1)
    cache.deadline.check, cache.deadline.longest_step = lambda: None, 0.1
    with pytest.raises(TookLongError):
        code(cache, claim, SearchLimits(None, None))
    assert evaluated(cache, claim) == 0
    cache.deadline.check = None
    assert code(cache, claim, SearchLimits(None, None)) == FITS
    cache.deadline.check = lambda: None
    assert code(cache, costly(DEVICES - 1, allocationMode="All"), SearchLimits(None, None)) == FITS, "no device is new"


def test_an_ordinary_selector_is_tried_however_many_devices_there_are():
    cache = cluster()
    cache.deadline.check, cache.deadline.longest_step = lambda: None, 0.0
    claim = make_claim("c", exactly(selectors=[selector('device.attributes["gpu.example.com"].index == 1')]))
    assert code(cache, claim, SearchLimits(None, None)) == FITS


def test_an_attempt_may_end_before_each_selector_that_it_compiles():
    cache, points = cluster(), []
    cache.deadline.check = lambda: points.append(1)
    texts = [selector(f'device.driver != "x{number}"') for number in range(20)]
    cache.devices.index.refresh()
    allocator_of(cache).problem([claim_spec_of(make_claim("c", exactly(selectors=texts))["spec"])])
    assert len(points) >= 20
