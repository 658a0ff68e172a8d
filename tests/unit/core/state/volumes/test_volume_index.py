"""The volumes that a claim may be bound to."""

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.volumes import parse_claim
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.plugins.volumes import make_claim, make_volume
from support.state.allocations import bytes_left_by

CLAIM = parse_claim(make_claim())


def names(index):
    """(the volumes without a claim, the volumes with this claim)"""
    return [volume.name for volume in index.unbound("std")], [volume.name for volume in index.reserved(CLAIM)]


class TestCandidates:
    def test_candidates_follow_changes_of_volumes(self):
        store = ObjectStore()
        index = VolumeIndex(store)

        store.set("PersistentVolume", make_volume("pv"))
        assert names(index) == (["pv"], [])
        store.set("PersistentVolume", make_volume("pv", claim="other"))
        assert names(index) == ([], [])
        store.set("PersistentVolume", make_volume("pv", claim="claim"))
        assert names(index) == ([], ["pv"])
        store.set("PersistentVolume", make_volume("pv", claim="claim", storage_class="else"))
        assert names(index) == ([], [])
        store.set("PersistentVolume", make_volume("pv", storage_class="else"))
        assert names(index) == ([], [])
        store.set("PersistentVolume", make_volume("pv"))
        store.remove("PersistentVolume", "pv")
        assert names(index) == ([], [])

    def test_an_assumed_version_replaces_the_stored_one(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        store.set("PersistentVolume", make_volume("pv"))
        index.assumed_volumes.assume(make_volume("pv", claim="claim", version="1"))
        (volume,) = index.unbound("std")
        assert CLAIM.reserved_by(volume)

    def test_an_invalid_volume_is_not_a_candidate(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        store.set("PersistentVolume", make_volume("bad", size="ten"))
        store.set("PersistentVolume", make_volume("good"))

        assert names(index) == (["good"], [])

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param({"metadata": {"name": "pv"}}, id="no spec"),
            pytest.param({"metadata": {"name": "pv", "annotations": []}, "spec": []}, id="lists instead of objects"),
            pytest.param(
                {"metadata": {"name": "pv"}, "spec": {"claimRef": "claim"}}, id="a string instead of a claim reference"
            ),
        ],
    )
    def test_a_malformed_volume_is_ignored(self, raw):
        store = ObjectStore()
        index = VolumeIndex(store)

        store.set("PersistentVolume", raw)
        store.remove("PersistentVolume", "pv")

        assert names(index) == ([], [])


def test_parsed_objects_go_with_their_sources():
    store = ObjectStore()
    index = VolumeIndex(store)

    def come_and_go():
        for number in range(500):
            store.set("PersistentVolume", make_volume(f"pv-{number}"))
            assert index.volume(f"pv-{number}") is not None
        for number in range(500):
            store.remove("PersistentVolume", f"pv-{number}")
        compact_all()
        compact_all()

    come_and_go()
    assert bytes_left_by(come_and_go) < 500 * 32


def test_outdated_assumptions_are_dropped_at_a_compaction():
    store = ObjectStore()
    index = VolumeIndex(store)
    volume = make_volume("pv")
    store.set("PersistentVolume", volume)
    index.assumed_volumes.assume(volume)
    compact_all()
    assert len(index.assumed_volumes) == 1
    store.remove("PersistentVolume", "pv")
    compact_all()
    assert len(index.assumed_volumes) == 0
