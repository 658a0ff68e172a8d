import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.devices.claims import parse_allocation
from podwright.core.objects.raw import Problems
from podwright.core.state.cache import Cache
from support.objects.devices import DRIVER, allocated, exactly, make_claim

DEVICE = (DRIVER, "a", "gpu-0")


@pytest.fixture
def cache():
    return Cache()


def stored(cache, version="1", **parts):
    cache.set_object("ResourceClaim", make_claim("mine", exactly(), resourceVersion=version, **parts))
    return cache.devices.claims.get("default", "mine")


def allocation():
    return parse_allocation(allocated("gpu-0", node="a")["allocation"], Problems("ResourceClaim", "mine"))


def in_use(cache):
    return cache.devices.claims.usage.in_use(DEVICE)


def test_an_allocation_in_flight_counts_until_the_last_pod_has_given_it_back(cache):
    claims, claim = cache.devices.claims, stored(cache)
    claims.begin(claim, allocation(), "p")
    claims.begin(claim, allocation(), "q")
    assert in_use(cache)
    assert not claims.end(claim.uid, "p")
    assert in_use(cache)
    assert claims.end(claim.uid, "q")
    assert not in_use(cache)
    assert not claims.end(claim.uid, "q"), "it was given back already"


def test_a_written_allocation_counts_once_from_the_write_to_the_watch(cache):
    claims, claim = cache.devices.claims, stored(cache)
    claims.begin(claim, allocation(), "p")
    claims.written(make_claim("mine", exactly(), resourceVersion="2", status=allocated("gpu-0", node="a")))
    claims.end(claim.uid, "p")
    assert in_use(cache)
    assert claims.get("default", "mine").allocation is not None
    stored(cache, version="2", status=allocated("gpu-0", node="a"))
    assert in_use(cache)
    stored(cache, version="3")
    assert not in_use(cache)
    assert claims.get("default", "mine").allocation is None


def test_an_older_version_from_the_watch_does_not_hide_what_was_written(cache):
    claims = cache.devices.claims
    stored(cache)
    claims.written(make_claim("mine", exactly(), resourceVersion="5", status=allocated("gpu-0", node="a")))
    stored(cache, version="4")
    assert in_use(cache)
    assert claims.get("default", "mine").allocation is not None


def test_an_answer_about_a_claim_that_is_gone_by_now_takes_no_devices(cache):
    claims, claim = cache.devices.claims, stored(cache)
    claims.begin(claim, allocation(), "p")
    cache.remove_object("ResourceClaim", "mine", "default")
    claims.written(make_claim("mine", exactly(), resourceVersion="2", status=allocated("gpu-0", node="a")))
    claims.end(claim.uid, "p")
    assert not in_use(cache)
    assert claims.get("default", "mine") is None


def test_a_created_claim_that_was_deleted_while_the_watch_was_interrupted_gives_its_devices_back(cache):
    claims = cache.devices.claims
    raw = make_claim("mine", exactly(), resourceVersion="2", status=allocated("gpu-0", node="a"))
    claims.written(raw, created=True)
    cache.set_object("ResourceClaim", make_claim("other", exactly(), resourceVersion="3"))
    compact_all()
    assert in_use(cache), "the watch may still be delivering a list"
    compact_all()
    assert not in_use(cache)
    assert claims.get("default", "mine") is None


def test_a_deleted_claim_gives_its_devices_back(cache):
    stored(cache, status=allocated("gpu-0", node="a"))
    assert in_use(cache)
    cache.remove_object("ResourceClaim", "mine", "default")
    assert not in_use(cache)
    assert len(cache.devices.claims.usage) == 0


def test_a_device_that_two_claims_hold_is_in_use_until_both_are_gone(cache):
    for name in ("one", "two"):
        cache.set_object("ResourceClaim", make_claim(name, exactly(), status=allocated("gpu-0", node="a")))
    cache.remove_object("ResourceClaim", "one", "default")
    assert in_use(cache)
    cache.remove_object("ResourceClaim", "two", "default")
    assert not in_use(cache)


def test_a_claim_under_the_same_name_is_another_one(cache):
    stored(cache, status=allocated("gpu-0", node="a"))
    cache.set_object("ResourceClaim", make_claim("mine", exactly(), uid="another"))
    assert not in_use(cache)


def test_shares_and_admin_access_do_not_take_the_device(cache):
    share = allocated("gpu-0", node="a", shareID="s", consumedCapacity={"memory": "1Gi"})
    stored(cache, status=share)
    usage = cache.devices.claims.usage
    assert not usage.in_use(DEVICE)
    assert usage.shared(DEVICE)
    assert usage.consumed(DEVICE) == {"memory": 2**30 * 10**9}
    stored(cache, version="2", status=allocated("gpu-0", node="a", adminAccess=True))
    assert not usage.used(DEVICE)


def test_decisions_notice_what_is_in_flight(cache):
    claim, before = stored(cache), cache.version
    cache.devices.claims.begin(claim, allocation(), "p")
    assert cache.version != before


def test_the_claim_for_extended_resources_is_found_by_its_pod(cache):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    stored(cache, ownerReferences=[owner], annotations=annotations)
    assert cache.devices.claims.created_for("uid-p").name == "mine"
    cache.remove_object("ResourceClaim", "mine", "default")
    assert cache.devices.claims.created_for("uid-p") is None
