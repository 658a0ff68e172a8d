"""Assumed versions of objects apply until the API server has a newer one."""

import pytest

from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.assumed import AssumedObjects
from support.plugins.volumes import make_volume


class TestAssumedObjects:
    def overlay(self, *volumes):
        store = ObjectStore()
        for volume in volumes:
            store.set("PersistentVolume", volume)
        return store, AssumedObjects(store, "PersistentVolume")

    def test_the_assumed_version_applies_until_a_new_version_arrives(self):
        store, assumed = self.overlay(make_volume("pv"))
        changed = make_volume("pv", claim="claim")
        assumed.assume(changed)
        assert assumed.get("pv") is changed
        assert list(assumed) == [changed]

        store.set("PersistentVolume", make_volume("pv"))
        assert assumed.get("pv") is changed

        newer = make_volume("pv", version="2")
        store.set("PersistentVolume", newer)
        assert assumed.get("pv") is newer
        assert list(assumed) == []

    def test_a_deleted_object_is_no_longer_assumed(self):
        store, assumed = self.overlay(make_volume("pv"))
        assumed.assume(make_volume("pv", claim="claim"))

        store.remove("PersistentVolume", "pv")

        assert assumed.get("pv") is None
        assert len(assumed) == 0

    def test_only_the_stored_version_can_be_assumed(self):
        _, assumed = self.overlay(make_volume("pv", version="3"))

        with pytest.raises(ValueError, match=r"out of sync \(stored: 3, assume: 2\)"):
            assumed.assume(make_volume("pv", version="2"))
        with pytest.raises(ValueError, match="PersistentVolume other is gone"):
            assumed.assume(make_volume("other"))

    def test_restoring_another_version_keeps_the_assumed_one(self):
        _, assumed = self.overlay(make_volume("pv"))
        changed = make_volume("pv", claim="claim")
        assumed.assume(changed)

        assumed.restore(make_volume("pv", version="2"))
        assert assumed.get("pv") is changed

        assumed.restore(changed)
        assert "claimRef" not in assumed.get("pv")["spec"]
