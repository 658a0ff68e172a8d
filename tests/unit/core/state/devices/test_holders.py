import pytest

from podwright.core.objects.devices.claims import parse_allocation
from podwright.core.objects.devices.parts import Problems
from podwright.core.state.cache import Cache
from podwright.core.state.devices.holders import Holders
from support.objects.devices import DRIVER, allocated, exactly, make_claim

DEVICE = (DRIVER, "a", "gpu-0")


def devices(*names, **result):
    return parse_allocation(allocated(*names, node="a", **result)["allocation"], Problems("ResourceClaim", "c")).devices


@pytest.fixture
def holders():
    return Holders()


def show(holders, name, *names, version="", **result):
    return holders.shown(name, ("default", name), devices(*names, **result), version)


def test_the_later_of_two_claims_has_a_rival(holders):
    assert show(holders, "early", "gpu-0", version="5")
    assert show(holders, "late", "gpu-1", "gpu-0", version="7")
    assert holders.rival("early") is None
    rival = holders.rival("late")
    assert (rival.device, rival.claim) == (DEVICE, ("default", "early"))
    assert str(rival) == f"device {DRIVER}/a/gpu-0 is also allocated to claim default/early"


def test_an_allocation_that_changes_nothing_keeps_its_version(holders):
    show(holders, "early", "gpu-0", version="5")
    show(holders, "late", "gpu-0", version="7")
    assert not show(holders, "early", "gpu-0", version="9")
    assert holders.rival("early") is None
    assert show(holders, "early", "gpu-0", "gpu-1", version="11"), "it has other devices now"
    assert holders.rival("early") is not None


def test_claims_of_a_list_count_as_the_earlier_ones(holders):
    show(holders, "listed", "gpu-0")
    show(holders, "live", "gpu-0", version="3")
    show(holders, "also", "gpu-0")
    assert holders.rival("live").claim == ("default", "listed")
    assert holders.rival("also").claim == holders.rival("live").claim


@pytest.mark.parametrize("how", ["deleted", "without devices"])
def test_a_claim_that_has_no_devices_any_longer_is_no_rival(holders, how):
    show(holders, "early", "gpu-0", version="5")
    show(holders, "late", "gpu-0", version="7")
    if how == "deleted":
        holders.gone("early")
    else:
        show(holders, "early", version="9")
    assert holders.rival("late") is None
    assert len(holders) == 1


def test_shares_of_one_device_and_admin_access_are_no_rivals(holders):
    show(holders, "one", "gpu-0", version="5", shareID="a")
    show(holders, "two", "gpu-0", version="6", shareID="b")
    show(holders, "watching", "gpu-0", version="7", adminAccess=True)
    assert [holders.rival(name) for name in ("one", "two", "watching")] == [None, None, None]
    show(holders, "whole", "gpu-0", version="8")
    assert holders.rival("whole").claim == ("default", "one")


def test_the_watch_tells_the_order_of_two_claims():
    cache, found = Cache(), []
    cache.devices.claims.on_rival = lambda claim, rival: found.append((claim.name, rival.claim[1]))

    def deliver(name, version, **parts):
        cache.set_object("ResourceClaim", make_claim(name, exactly(), resourceVersion=version, **parts))

    for name in ("one", "two"):
        deliver(name, "1")
    deliver("two", "5", status=allocated("gpu-0", node="a"))
    deliver("one", "6", status=allocated("gpu-0", node="a"))
    assert found == [("one", "two")]
    deliver("one", "7", status=allocated("gpu-0", node="a", reserved_for=["p"]))
    assert found == [("one", "two")], "reported once"
    cache.remove_object("ResourceClaim", "two", "default")
    assert cache.devices.claims.holders.rival("uid-one") is None
