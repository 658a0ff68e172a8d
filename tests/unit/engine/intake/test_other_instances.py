"""An instance says that another one binds pods, too. What an earlier process has bound does not count."""

from __future__ import annotations

import json

import pytest

from podwright.engine.intake.other_instances import QUIET_SECONDS, REMEMBERED
from podwright.engine.ports import Regarding
from podwright.engine.process.instance import Instance, new_instance
from podwright.engine.records.decision_annotation import ANNOTATION, decided_by
from support.engine.kit import Rig, deciding, on_node, ours, settle, values
from support.logs.lines import lines_of
from support.objects.builders import make_pod

OTHER = "elsewhere_0a1b2c3d"
TEXT = (
    f"Another instance of Podwright binds pods, too: {OTHER}. Together they can over-commit nodes, because neither knows "
    "what the other is about to bind. Run one at a time."
)


class Recorder:
    """Keeps what events regard, and their notes."""

    def __init__(self):
        self.events = []

    def record(self, regarding, kind, reason, action, note):
        if reason == "OtherInstance":
            self.events.append((regarding, kind, note))

    def forget(self, uid):
        pass


@pytest.fixture
def rig():
    rig = Rig(instance=Instance("here_00000000", "own-uid"))
    rig.node("a")
    return rig


def bound_by(instance, name="web", node="a", **decision):
    """A pod that another instance has bound."""
    raw = on_node(ours(name), node)
    text = json.dumps({"policy": "p", "uid": raw["metadata"]["uid"], "instance": instance, **decision})
    return {**raw, "metadata": {**raw["metadata"], "annotations": {ANNOTATION: text}}}


def counted(rig):
    return values(rig, "podwright_other_instances_bindings_total")[()]


async def test_a_pod_that_another_instance_binds_is_reported_everywhere(rig, caplog, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(rig.recorder, "record", recorder.record)
    async with deciding(rig):
        rig.engine.assigned.put(bound_by(OTHER))
        rig.now += 3
        assert rig.engine.other_instances.problem() == f"{TEXT} It has bound 1 pod, the last 3 s ago."
    assert counted(rig) == 1
    assert lines_of(caplog.records) == [f'{TEXT} It has bound 1 pod by now pod="default/web" node="a"']
    assert recorder.events == [(Regarding("", "a", "a", "", "podwright", "Node"), "Warning", TEXT)]


async def test_the_event_regards_our_own_deployment_if_it_is_known(rig, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(rig.recorder, "record", recorder.record)
    own = make_pod("podwright-5d4f-x", namespace="podwright-system", uid="own-uid", node="a")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "podwright-5d4f", "uid": "rs", "controller": True}
    own["metadata"]["ownerReferences"] = [owner]
    rig.engine.assigned.put(own)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podwright", "uid": "d", "controller": True}
    metadata = {"name": "podwright-5d4f", "namespace": "podwright-system", "ownerReferences": [deployment]}
    rig.engine.objects("ReplicaSet").put({"metadata": metadata, "spec": {}})
    async with deciding(rig):
        rig.engine.assigned.put(bound_by(OTHER))
    ((regarding, _, _),) = recorder.events
    assert regarding == Regarding("podwright-system", "podwright", "d", "", "podwright", "Deployment", "apps/v1")


async def test_repeated_bindings_are_counted_and_reported_at_growing_numbers(rig, caplog):
    async with deciding(rig):
        for number in range(1_000):
            rig.engine.assigned.put(bound_by(OTHER, f"web-{number}"))
    assert counted(rig) == 1_000
    assert [record.getMessage().partition("has bound ")[2].partition(" by")[0] for record in caplog.records] == [
        "1 pod",
        "10 pods",
        "100 pods",
        "1000 pods",
    ]
    assert len(rig.recorder.notes("OtherInstance")) == 4
    assert set(rig.recorder.notes("OtherInstance")) == {TEXT}  # so that the events are one series


async def test_after_a_quiet_time_the_other_instance_counts_as_ended_and_is_reported_again_when_it_returns(rig, caplog):
    async with deciding(rig):
        rig.engine.assigned.put(bound_by(OTHER))
        rig.now += QUIET_SECONDS + 1
        assert rig.engine.other_instances.problem() == ""
        rig.engine.assigned.put(bound_by(OTHER, "later"))
        assert "It has bound 1 pod, the last 0 s ago" in rig.engine.other_instances.problem()
    assert len(caplog.records) == 2


async def test_what_was_bound_before_our_lists_were_complete_does_not_count(rig, caplog):
    rig.engine.assigned.put(bound_by(OTHER, "earlier"))
    async with deciding(rig):
        rig.engine.assigned.put(bound_by(OTHER, "earlier", generation=2))  # an update, or a relist
        finished = bound_by(OTHER, "earlier")
        finished["status"] = {"phase": "Succeeded"}
        for _ in range(2):  # the cache forgets it with the first
            rig.engine.assigned.put(finished)
        rig.engine.assigned.drop("default/earlier", finished)
    assert counted(rig) == 0
    assert rig.engine.other_instances.problem() == ""
    assert not caplog.records


async def test_our_own_bindings_do_not_count(rig, caplog):
    raw = rig.pod("web")
    async with deciding(rig):
        (annotations,) = rig.cluster.annotations
        assert decided_by({"metadata": {**raw["metadata"], "annotations": annotations}}) == "here_00000000"
        shown = on_node(raw, "a")
        shown["metadata"] = {**raw["metadata"], "annotations": annotations}
        rig.engine.pending.drop("default/web", raw)
        rig.engine.assigned.put(shown)
        await settle()
    assert counted(rig) == 0
    assert not caplog.records


async def test_a_pod_that_the_other_instance_took_while_we_were_binding_it_counts(rig):
    rig.pod("web")
    async with deciding(rig):
        assert rig.engine.cache.is_assumed("default/web")
        rig.engine.assigned.put(bound_by(OTHER))
    assert counted(rig) == 1


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(None, id="none, another scheduler bound it"),
        pytest.param({ANNOTATION: "{}"}, id="a decision without an instance, by an older version"),
        pytest.param({ANNOTATION: json.dumps({"instance": OTHER, "uid": "another"})}, id="copied from another pod"),
        pytest.param({ANNOTATION: json.dumps({"instance": OTHER})}, id="written by a user, who cannot know the uid"),
        pytest.param({ANNOTATION: "not JSON"}, id="not JSON"),
        pytest.param({ANNOTATION: "[1]"}, id="not an object"),
        pytest.param({ANNOTATION: 3}, id="not a text"),
        pytest.param({ANNOTATION: "[" * 100_000}, id="nested deeply"),
    ],
)
async def test_other_annotations_mean_nothing(rig, caplog, annotations):
    raw = on_node(ours("web"), "a")
    raw["metadata"]["annotations"] = annotations
    async with deciding(rig):
        rig.engine.assigned.put(raw)
        assert rig.engine.other_instances.problem() == ""
    assert rig.placed_on("web") == "a"
    assert counted(rig) == 0
    assert not caplog.records


async def test_a_bounded_number_of_instances_is_remembered(rig):
    async with deciding(rig):
        rig.engine.assigned.put(bound_by("first", "first"))
        for number in range(REMEMBERED):
            rig.engine.assigned.put(bound_by(f"other-{number}", f"web-{number}"))
        rig.engine.assigned.put(bound_by("first", "again"))
        assert "binds pods, too: first. " in rig.engine.other_instances.problem()
        assert "It has bound 1 pod," in rig.engine.other_instances.problem()


def test_each_process_has_an_identity_of_its_own():
    first, second = new_instance("h" * 300, "uid"), new_instance("h" * 300)
    assert first.id != second.id
    assert len(first.id) < 80
    assert (first.pod_uid, second.pod_uid) == ("uid", "")


async def test_what_a_successor_binds_is_no_other_instance(caplog):
    leading = True
    rig = Rig(instance=Instance("here_00000000", "own-uid", leads=lambda: leading))
    rig.node("a")
    async with deciding(rig):
        leading = False  # as after a pause of the process that was longer than the Lease
        rig.engine.assigned.put(bound_by(OTHER))
        assert rig.engine.other_instances.problem() == ""
        assert counted(rig) == 0
        leading = True
        rig.engine.assigned.put(bound_by(OTHER, "web-2"))
        assert counted(rig) == 1
