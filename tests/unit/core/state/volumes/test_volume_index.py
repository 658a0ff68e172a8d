"""The volumes that a claim may be bound to."""

import pytest

from podwright.core.objects.volumes import parse_claim
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.plugins.volumes import make_claim, make_volume


class TestCandidates:
    def test_candidates_follow_changes_of_volumes(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        claim = parse_claim(make_claim())

        def names():
            return {volume.name for volume in index.candidates(claim)}

        store.set("PersistentVolume", make_volume("pv"))
        assert names() == {"pv"}
        store.set("PersistentVolume", make_volume("pv", claim="other"))
        assert names() == set()
        store.set("PersistentVolume", make_volume("pv", claim="claim"))
        assert names() == {"pv"}
        store.set("PersistentVolume", make_volume("pv", storage_class="else"))
        assert names() == set()
        store.set("PersistentVolume", make_volume("pv"))
        store.remove("PersistentVolume", "pv")
        assert names() == set()

    def test_an_invalid_volume_is_not_a_candidate(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        store.set("PersistentVolume", make_volume("bad", size="ten"))
        store.set("PersistentVolume", make_volume("good"))

        assert {volume.name for volume in index.candidates(parse_claim(make_claim()))} == {"good"}

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

        assert list(index.candidates(parse_claim(make_claim()))) == []
