"""Which fields of watched objects are stored, and when two versions count as equal."""

from __future__ import annotations

import pytest

from podwright.core.objects.watched_kinds import STORED_KINDS, trimmed, unchanged

RAW = {
    "metadata": {"name": "web", "resourceVersion": "1", "managedFields": [{"manager": "me"}]},
    "spec": {"selector": {"app": "web"}, "replicas": 3},
    "status": {"replicas": 3},
}


@pytest.mark.parametrize(
    "kind, expected",
    [
        pytest.param("ReplicaSet", {"spec": {"selector": {"app": "web"}}}, id="the entry names the stored fields"),
        pytest.param(
            "Service", {"spec": RAW["spec"], "status": RAW["status"]}, id="all fields of another kind are stored"
        ),
    ],
)
def test_managed_fields_and_unused_fields_are_dropped(kind, expected):
    assert trimmed(kind, RAW) == {"metadata": {"name": "web", "resourceVersion": "1"}, **expected}


@pytest.mark.parametrize(
    "kind, change, expected",
    [
        pytest.param("ReplicaSet", {}, True, id="nothing changed"),
        pytest.param("ReplicaSet", {"resourceVersion": "2", "generation": 2}, True, id="only versions changed"),
        pytest.param("ReplicaSet", {"resourceVersion": "2", "labels": {"a": "b"}}, False, id="a label changed"),
        pytest.param(
            "PersistentVolume", {"resourceVersion": "2"}, False, id="a new version of a kind that plugins update"
        ),
    ],
)
def test_a_new_version_alone_is_a_change_only_of_kinds_that_are_updated(kind, change, expected):
    before = trimmed(kind, RAW)
    after = {**before, "metadata": {**before["metadata"], **change}}
    assert unchanged(kind, before, after) is expected


def test_kinds_that_plugins_update_are_stored_with_all_fields():
    assert [entry.kind for entry in STORED_KINDS if entry.updated and entry.spec_fields] == []
