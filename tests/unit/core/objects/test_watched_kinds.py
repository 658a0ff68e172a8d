"""What is kept of an object of a watched kind, and when two versions of it count as the same."""

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
        pytest.param("ReplicaSet", {"spec": {"selector": {"app": "web"}}}, id="only the fields that the entry names"),
        pytest.param("Service", {"spec": RAW["spec"], "status": RAW["status"]}, id="everything of another kind"),
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
        pytest.param("PersistentVolume", {"resourceVersion": "2"}, False, id="a newer version of what is written back"),
    ],
)
def test_versions_alone_change_only_objects_that_are_written_back(kind, change, expected):
    before = trimmed(kind, RAW)
    after = {**before, "metadata": {**before["metadata"], **change}}
    assert unchanged(kind, before, after) is expected


def test_no_kind_that_is_written_back_is_trimmed():
    assert [entry.kind for entry in STORED_KINDS if entry.updated and entry.spec_fields] == []
