import contextlib

import pytest

from podwright.core.devices import verdicts
from podwright.core.devices.allocator import allocator_of
from podwright.core.devices.errors import SearchTimeoutError
from podwright.core.devices.verdicts import FAILS, FITS, HARD, TOO_FEW, SearchLimits
from podwright.core.objects.devices.claims import claim_spec_of
from podwright.core.state.deadline import TookLongError
from support.objects.builders import make_node
from support.objects.devices import (
    allocated,
    exactly,
    first_available,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selector,
)
from support.plugins.kit import make_cache

UNLIMITED = SearchLimits(None, None)


def cluster(*slices, nodes=("a", "b")):
    cache = make_cache([make_node(name) for name in nodes])
    cache.set_object("DeviceClass", make_class("gpu"))
    for raw in slices:
        cache.set_object("ResourceSlice", raw)
    return cache


def problem_of(cache, *claims):
    """The problem of these raw claims."""
    return allocator_of(cache).problem([claim_spec_of(claim["spec"]) for claim in claims])


def verdicts_of(cache, *claims):
    """The verdicts for these raw claims."""
    cache.devices.index.refresh()
    return allocator_of(cache).verdicts(problem_of(cache, *claims))


def codes(cache, *claims, limits=UNLIMITED):
    """By node name."""
    found = verdicts_of(cache, *claims).codes(cache.table.valid, limits)
    return {name: int(found[slot]) for slot, name in enumerate(cache.table.names)}


def names(cache, node, *claims):
    """The devices of each claim on the node."""
    search = verdicts_of(cache, *claims).solve(problem_of(cache, *claims), cache.table.slot_of(node), UNLIMITED)
    return [[pick.item.device.name for pick in picks] for picks in search.solution]


def searched(cache, *claims):
    """How many nodes are searched for these claims."""
    before = verdicts_of(cache, *claims).searches
    codes(cache, *claims)
    return verdicts_of(cache, *claims).searches - before


def gpus(node, count=2, **fields):
    return make_slice(f"{node}-gpus", [make_device(f"gpu-{i}", **fields) for i in range(count)], node=node)


def numbered(node, count, **spec):
    """Devices of which each is another one to every selector."""
    devices = [make_device(f"gpu-{i}", attributes={"index": i, "group": i % 2}) for i in range(count)]
    return make_slice(f"{node}-gpus", devices, node=node, **spec)


def test_backtracking_gives_up_a_device_that_a_later_request_needs():
    few = exactly("few", selectors=[selector('device.attributes["gpu.example.com"].index == 0')])
    cache = cluster(numbered("a", 2), nodes=["a"])
    claim = make_claim("c", exactly("any"), few)
    assert codes(cache, claim) == {"a": FITS}
    assert names(cache, "a", claim) == [["gpu-1", "gpu-0"]]


def test_only_nodes_whose_devices_have_changed_are_searched_again():
    cache = cluster(*(gpus(f"n{i}") for i in range(20)), nodes=[f"n{i}" for i in range(20)])
    claim = make_claim("c", exactly())
    assert searched(cache, claim) == 20
    assert searched(cache, claim) == 0
    cache.set_object("ResourceSlice", gpus("n3", 3))
    assert searched(cache, claim) == 1


def test_a_slice_that_is_published_again_needs_no_evaluation():
    cache = cluster(gpus("a"))
    claim = make_claim("c", exactly(selectors=[selector("device.driver != ''")]))
    codes(cache, claim)
    (ask,) = problem_of(cache, claim).claims[0].requests[0].asks
    assert ask.matcher.evaluations == 1, "both devices are alike"
    for generation in range(2, 10):
        again = make_slice("a-gpus", gpus("a")["spec"]["devices"], node="a", generation=generation)
        cache.set_object("ResourceSlice", again)
        assert codes(cache, claim)["a"] == FITS
    assert ask.matcher.evaluations == 1


def test_what_failed_with_a_device_is_not_tried_with_one_that_is_like_it():
    """8 of 30 devices, and then one that does not exist: without that, the search would take 5 million ways."""
    impossible = exactly("x", selectors=[selector("false")])
    cache = cluster(gpus("a", 30), nodes=["a"])
    claim = make_claim("c", exactly(count=8), impossible)
    assert codes(cache, claim, limits=SearchLimits(5000, None)) == {"a": TOO_FEW}


def hard_claim(first=10, second=11):
    """Devices of one group, of which there are too few. All differ, so every way has to be tried."""
    return make_claim(
        "c",
        exactly(count=first),
        exactly("x", count=second),
        constraints=[{"matchAttribute": "gpu.example.com/group"}, {"distinctAttribute": "gpu.example.com/index"}],
    )


def test_a_search_ends_with_the_timeout():
    cache = cluster(numbered("a", 40), nodes=["a"])
    with pytest.raises(SearchTimeoutError, match="a"):
        codes(cache, hard_claim(), limits=SearchLimits(20_000, None))


def test_a_search_goes_on_in_the_next_attempt():
    cache = cluster(numbered("a", 40), nodes=["a"])
    for _ in range(4):
        with pytest.raises(SearchTimeoutError):
            codes(cache, hard_claim(), limits=SearchLimits(None, 2_000))
    assert verdicts_of(cache, hard_claim()).searches == 1
    assert verdicts_of(cache, hard_claim()).steps > 4 * 2_000


def test_a_search_pauses_and_goes_on_after_a_pause_in_which_something_has_changed():
    cache = cluster(numbered("a", 40), nodes=["a"])
    pauses = []

    def pause():
        pauses.append(True)
        if len(pauses) % 5 == 0:
            raise TookLongError

    cache.deadline.check = pause
    for _ in range(3):
        with pytest.raises(TookLongError):
            codes(cache, hard_claim())
    assert len(pauses) == 15


def many_nodes(count, devices=8):
    return cluster(*(numbered(f"n{i}", devices) for i in range(count)), nodes=[f"n{i}" for i in range(count)])


def test_the_first_search_pauses_between_nodes_and_goes_on_after_a_change(monkeypatch):
    monkeypatch.setattr(verdicts, "STEPS_BETWEEN_PAUSES", 500)
    cache, pauses = many_nodes(100), []

    def pause():
        pauses.append(True)
        if len(pauses) % 2 == 0:
            raise TookLongError

    cache.deadline.check = pause
    claim = make_claim("c", exactly(count=4))
    for _ in range(100):
        try:
            found = codes(cache, claim)
            break
        except TookLongError:
            continue
    assert set(found.values()) == {FITS}
    assert len(pauses) >= 4
    assert verdicts_of(cache, claim).searches == 100, "each node once"


def test_an_attempt_that_cannot_pause_searches_a_part_of_the_nodes():
    cache, claim = many_nodes(100), make_claim("c", exactly(count=4))
    with pytest.raises(SearchTimeoutError):
        codes(cache, claim, limits=SearchLimits(None, 10))
    before = verdicts_of(cache, claim).searches
    assert 0 < before < 100
    assert set(codes(cache, claim).values()) == {FITS}
    assert verdicts_of(cache, claim).searches == 100, "the next attempt goes on"


@pytest.mark.parametrize("number", range(1, 20))
def test_a_pause_within_an_evaluation_changes_no_result(number, monkeypatch):
    """In a long search, of which one step has then been done in part. One device fails, so that evaluations come
    late.
    """
    monkeypatch.setattr(verdicts, "HARD", 1)
    devices = [make_device(f"d{i}", attributes={"index": i, **({"flag": True} if i < 5 else {})}) for i in range(6)]
    flagged = exactly("flagged", selectors=[selector('device.attributes["gpu.example.com"].flag')])
    indexed = exactly("indexed", count=2, selectors=[selector('device.attributes["gpu.example.com"].index < 5')])
    last = exactly("last", selectors=[selector('device.attributes["gpu.example.com"].index == 9')])
    claims = (make_claim("c", flagged, indexed, last),)

    def one_node():
        return cluster(make_slice("s", devices, node="a"), nodes=["a"])

    expected, cache, pauses = codes(one_node(), *claims), one_node(), []

    def pause():
        pauses.append(True)
        if len(pauses) == number:
            raise TookLongError

    cache.deadline.check = pause
    with contextlib.suppress(TookLongError):
        codes(cache, *claims)
    assert codes(cache, *claims) == expected == {"a": FAILS}


def test_nodes_that_are_alike_share_a_long_search():
    def steps(count):
        names_of_nodes = [f"n{i}" for i in range(count)]
        cache = cluster(*(numbered(node, 12) for node in names_of_nodes), nodes=names_of_nodes)
        claim = hard_claim(4, 4)
        assert set(codes(cache, claim).values()) == {TOO_FEW}
        return verdicts_of(cache, claim).steps

    assert steps(1) > 2 * HARD
    assert steps(5) <= steps(1) + 4 * 2 * HARD


def test_a_thousand_claims_need_no_recursion():
    cache = cluster(make_slice("s", [make_device(f"d{i}") for i in range(128)], node="a"), nodes=["a"])
    claims = [make_claim(f"c{i}", exactly()) for i in range(1000)]
    assert codes(cache, *claims) == {"a": TOO_FEW}
    assert codes(cache, *claims[:128]) == {"a": FITS}


def test_a_device_that_is_no_longer_shared_is_not_free_while_it_has_a_share():
    cache = cluster(gpus("a", 1, capacity={"memory": "80Gi"}), nodes=["a"])
    share = allocated("gpu-0", node="a", shareID="s", consumedCapacity={"memory": "1Gi"})
    cache.set_object("ResourceClaim", make_claim("other", exactly(), status=share))
    assert codes(cache, make_claim("c", exactly())) == {"a": TOO_FEW}


def test_a_constraint_on_all_devices_names_the_device_that_kube_scheduler_names():
    roots = ["y", "x", "y"]
    devices = [make_device(f"d{i}", attributes={"root": root}) for i, root in enumerate(roots)]
    cache = cluster(make_slice("s", devices, node="a"), nodes=["a"])
    claim = make_claim(
        "c",
        exactly("one"),
        exactly("rest", allocationMode="All"),
        constraints=[{"distinctAttribute": "gpu.example.com/root"}],
    )
    assert codes(cache, claim) == {"a": FAILS}
    text = ", request rest: cannot add device gpu.example.com/a/d0 because a claim constraint would not be satisfied"
    assert verdicts_of(cache, claim).error(problem_of(cache, claim), cache.table.slot_of("a"), UNLIMITED).text == text


ODD = 'device.attributes["gpu.example.com"].index % 2 == 1'


def test_problems_that_differ_in_names_only_share_their_verdicts():
    cache = cluster(numbered("a", 2), numbered("b", 2))
    cache.set_object("DeviceClass", make_class("odd", ODD))
    cache.set_object("DeviceClass", make_class("uneven", ODD))
    one, other = make_claim("c", exactly("r", "odd")), make_claim("c", exactly("s", "uneven"))
    assert searched(cache, one) == 2
    assert searched(cache, other) == 0
    search = verdicts_of(cache, other).solve(problem_of(cache, other), cache.table.slot_of("a"), UNLIMITED)
    ((pick,),) = search.solution
    assert (pick.ask.ask.name, pick.ask.ask.device_class, pick.item.device.name) == ("s", "uneven", "gpu-1")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(make_claim("c", exactly(), exactly("s")), id="another request"),
        pytest.param(make_claim("c", exactly(count=2)), id="another count"),
        pytest.param(make_claim("c", exactly(allocationMode="All")), id="all devices"),
        pytest.param(make_claim("c", exactly(adminAccess=True)), id="admin access"),
        pytest.param(make_claim("c", exactly(device_class="odd")), id="a class with other selectors"),
        pytest.param(make_claim("c", exactly(device_class="ghost")), id="a class that does not exist"),
        pytest.param(make_claim("c", exactly(selectors=[selector(ODD)])), id="a selector"),
        pytest.param(make_claim("c", exactly(tolerations=[{"operator": "Exists"}])), id="a toleration"),
        pytest.param(make_claim("c", exactly(capacity={"requests": {"memory": "1"}})), id="a capacity"),
        pytest.param(make_claim("c", first_available("r", exactly())), id="an alternative"),
        pytest.param(make_claim("c", exactly(), constraints=[{"matchAttribute": "x/y"}]), id="a constraint"),
    ],
)
def test_problems_that_ask_for_something_else_have_verdicts_of_their_own(other):
    cache = cluster(numbered("a", 2))
    cache.set_object("DeviceClass", make_class("odd", ODD))
    assert verdicts_of(cache, other) is not verdicts_of(cache, make_claim("c", exactly()))


def test_the_requests_of_a_constraint_matter_but_not_their_names():
    cache = cluster(numbered("a", 2))

    def claim(one, other, *covered):
        return make_claim(
            "c", exactly(one), exactly(other), constraints=[{"matchAttribute": "x/y", "requests": covered}]
        )

    assert verdicts_of(cache, claim("r", "s", "r")) is verdicts_of(cache, claim("t", "u", "t"))
    assert verdicts_of(cache, claim("r", "s", "r")) is not verdicts_of(cache, claim("r", "s", "s"))


def test_an_error_names_the_claim_that_asks_also_if_another_one_found_it():
    cache = cluster(numbered("a", 1), nodes=["a"])
    for name in ("one", "other"):
        cache.set_object("DeviceClass", make_class(name, 'device.attributes["x"].ghost == 1'))
    texts = []
    for name in ("one", "other"):
        claim = make_claim("c", exactly("r", name))
        assert codes(cache, claim) == {"a": FAILS}
        before = verdicts_of(cache, claim).searches
        for _ in range(2):
            found = verdicts_of(cache, claim).error(problem_of(cache, claim), cache.table.slot_of("a"), UNLIMITED)
        assert verdicts_of(cache, claim).searches <= before + 1, "it is kept"
        texts.append(found.text)
    assert [text.split(":")[0] for text in texts] == ["class one", "class other"]
