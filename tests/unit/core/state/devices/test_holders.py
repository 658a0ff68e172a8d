import pytest

from podwright.core.objects.devices.claims import parse_allocation
from podwright.core.objects.node import parse_node
from podwright.core.objects.raw import Problems
from podwright.core.state.cache import Cache
from podwright.core.state.devices.holders import Holders
from support.objects.builders import make_node
from support.objects.devices import DRIVER, allocated, exactly, make_claim, make_device, make_slice


def counter_set(name, **counters):
    return {"name": name, "counters": {key: {"value": value} for key, value in counters.items()}}


def consuming(name, units):
    return make_device(name, consumesCounters=[counter_set("", units=str(units)) | {"counterSet": "board"}])


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


def test_a_claim_that_names_a_device_twice_counts_once_and_leaves_nothing(holders):
    show(holders, "odd", "gpu-0", "gpu-0", version="5")
    show(holders, "shares", "gpu-1", "gpu-1", version="6", shareID="a")
    assert (holders.rival("odd"), holders.rival("shares")) == (None, None)
    show(holders, "late", "gpu-0", "gpu-1", version="7")
    assert holders.rival("late").claim[1] == "odd"
    for name in ("odd", "shares"):
        holders.gone(name)
    assert holders.rival("late") is None
    holders.gone("late")
    assert show(holders, "odd", "gpu-0", version="9")


class TestWhatIsShared:
    """A NIC of 10 units whose shares claims get, and a board whose halves consume 2 of 4 units, and the whole of it
    4.
    """

    SLICES = (
        make_slice(
            "nics", [make_device("nic", allowMultipleAllocations=True, capacity={"units": "10"})], node="a", pool="nics"
        ),
        make_slice("counters", node="a", pool="boards", count=2, sharedCounters=[counter_set("board", units="4")]),
        make_slice(
            "boards",
            [consuming("left", 2), consuming("right", 2), consuming("whole", 4), make_device("fan")],
            node="a",
            pool="boards",
            count=2,
        ),
    )

    @pytest.fixture
    def cache(self):
        cache = Cache()
        cache.set_node(parse_node(make_node("a")))
        for each in self.SLICES:
            cache.set_object("ResourceSlice", each)
        cache.devices.index.refresh()
        return cache

    @pytest.fixture
    def holders(self, cache):
        return cache.devices.claims.holders

    def show_share(self, holders, name, units, version):
        result = {"shareID": name, "consumedCapacity": {"units": units}}
        status = allocated("nic", node="a", pool="nics", **result)
        parsed = parse_allocation(status["allocation"], Problems("ResourceClaim", name)).devices
        return holders.shown(name, ("default", name), parsed, version)

    def show_parts(self, holders, name, *parts, version, **result):
        status = allocated(*parts, node="a", pool="boards", **result)
        parsed = parse_allocation(status["allocation"], Problems("ResourceClaim", name)).devices
        return holders.shown(name, ("default", name), parsed, version)

    def test_shares_that_are_more_than_the_capacity_are_rivals(self, holders):
        self.show_share(holders, "first", "4", "5")
        self.show_share(holders, "second", "6", "6")
        assert [holders.rival(name) for name in ("first", "second")] == [None, None]
        self.show_share(holders, "third", "1", "7")
        assert [holders.rival(name) for name in ("first", "second")] == [None, None]
        rival = holders.rival("third")
        assert (rival.kind, rival.capacity, rival.claim) == ("capacity", "units", ("default", "second"))
        assert str(rival) == f"capacity units of device {DRIVER}/nics/nic is also allocated to claim default/second"
        holders.gone("first")
        assert holders.rival("third") is None

    def test_partitions_that_consume_more_than_the_counters_are_rivals(self, holders):
        self.show_parts(holders, "left", "left", version="5")
        self.show_parts(holders, "right", "right", version="6")
        self.show_parts(holders, "fan", "fan", version="7")
        assert [holders.rival(name) for name in ("left", "right", "fan")] == [None, None, None]
        self.show_parts(holders, "whole", "fan", "whole", version="8")
        assert holders.rival("whole").claim == ("default", "fan"), "first of all the device itself"
        holders.gone("fan")
        rival = holders.rival("whole")
        assert (rival.kind, rival.counter, rival.claim) == ("counter", "board/units", ("default", "right"))
        assert str(rival).startswith(f"counter board/units, which device {DRIVER}/boards/whole consumes, is also")
        assert [holders.rival(name) for name in ("left", "right")] == [None, None]
        holders.gone("left")
        assert holders.rival("whole") is not None
        holders.gone("right")
        assert holders.rival("whole") is None

    def test_admin_access_consumes_nothing(self, holders):
        self.show_parts(holders, "watching", "whole", version="5", adminAccess=True)
        self.show_parts(holders, "left", "left", version="6")
        assert holders.rival("left") is None

    def test_slices_of_a_new_generation_count_and_devices_that_are_gone_do_not(self, cache, holders):
        self.show_share(holders, "first", "4", "5")
        self.show_share(holders, "second", "6", "6")
        small = make_device("nic", allowMultipleAllocations=True, capacity={"units": "9"})
        cache.set_object("ResourceSlice", make_slice("nics", [small], node="a", pool="nics", generation=2))
        cache.devices.index.refresh()
        assert holders.rival("second").capacity == "units"
        cache.remove_object("ResourceSlice", "nics")
        cache.devices.index.refresh()
        assert holders.rival("second") is None

    def test_a_claim_costs_as_many_steps_as_its_pool_has_held_devices(self, holders, monkeypatch):
        calls = []
        monkeypatch.setattr(holders, "defined", Counting(holders.defined, calls))
        for i in range(100):
            self.show_share(holders, f"c{i}", "0", str(i + 1))
        self.show_parts(holders, "left", "left", version="200")
        for name in ("c99", "left"):
            holders.rival(name)
        assert len(calls) <= 4


class Counting:
    """Counts the questions about pools."""

    any_counters = True

    def __init__(self, defined, calls):
        self._defined, self._calls = defined, calls

    def devices(self, pool_id):
        self._calls.append(pool_id)
        return self._defined.devices(pool_id)

    def counters(self, pool_id):
        return self._defined.counters(pool_id)


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
