"""Pods that come in through Kopf: from its lists at once, and from its watch, which may report a pod late."""

from __future__ import annotations

import pytest

from podwright.engine.intake import pending_pods
from support.engine.kit import Rig, ours


@pytest.fixture
def parsed(monkeypatch):
    """The versions of the pods that were parsed."""
    versions, parse = [], pending_pods.parse_pod

    def counting(raw, **options):
        versions.append(raw["metadata"]["resourceVersion"])
        return parse(raw, **options)

    monkeypatch.setattr(pending_pods, "parse_pod", counting)
    return versions


def at(version, **options):
    raw = ours("pod", **options)
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version)}}


def version_in_queue(rig):
    raw = ours("pod")
    queued = rig.engine.queue.get(raw["metadata"]["uid"])
    return None if queued is None else queued.pod.resource_version


@pytest.mark.parametrize("lists", [1, 10])
def test_a_listed_pod_that_the_queue_has_is_not_parsed_again(parsed, lists):
    rig = Rig()
    rig.engine.pending.put(at(9))
    for _ in range(lists):
        rig.engine.pending.put_listed(at(9))
    assert parsed == ["9"]


@pytest.mark.parametrize("listed", [pytest.param(10, id="changed"), pytest.param(8, id="restored from a backup")])
def test_a_listed_pod_at_another_version_is_taken_in(parsed, listed):
    rig = Rig()
    rig.engine.pending.put_listed(at(9))
    rig.engine.pending.put_listed(at(listed))
    assert parsed == ["9", str(listed)]
    assert version_in_queue(rig) == str(listed)


def test_a_listed_pod_of_another_scheduler_is_left_to_the_list_of_foreign_pods(parsed):
    rig = Rig()
    rig.engine.pending.put_listed(at(9, spec={"schedulerName": "other", "schedulingGroup": {"podGroupName": "gang"}}))
    assert (parsed, version_in_queue(rig), len(rig.engine.foreign_pods)) == ([], None, 0)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_an_event_that_comes_after_a_newer_list_changes_nothing(parsed, kind):
    """Versions are compared as numbers."""
    rig = Rig()
    rig.engine.pending.put_listed(at(100))
    rig.engine.pending.take_event({"type": kind, "object": at(99)})
    assert (parsed, version_in_queue(rig)) == (["100"], "100")
    rig.engine.pending.take_event({"type": kind, "object": at(101)})
    assert version_in_queue(rig) == "101"


@pytest.mark.parametrize("version", [99, 101])
def test_a_deletion_counts_whatever_its_version(version):
    rig = Rig()
    rig.engine.pending.put_listed(at(100))
    rig.engine.pending.take_event({"type": "DELETED", "object": at(version)})
    assert version_in_queue(rig) is None


def test_an_event_of_a_pod_that_the_queue_does_not_have_is_taken_in():
    rig = Rig()
    rig.engine.pending.take_event({"type": "ADDED", "object": at(1)})
    assert version_in_queue(rig) == "1"
