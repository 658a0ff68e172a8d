"""Events for pods with the metadata of pod groups that nothing reads."""

from __future__ import annotations

import pytest

from podwright.core.objects.pod_group import VOLCANO_API
from podwright.engine.intake import unread_groups
from support.engine.kit import Rig
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of, reference

VOLCANO = {"scheduling.k8s.io/group-name": "train"}


def events(rig: Rig) -> list[tuple[str, str]]:
    return [(name, note) for name, reason, note in rig.recorder.events if reason == unread_groups.UNREAD]


@pytest.mark.parametrize(
    ("annotations", "labels", "text"),
    [
        pytest.param(VOLCANO, {}, "pod group train of scheduling.volcano.sh", id="Volcano"),
        pytest.param({"pod-group-name": "train"}, {}, "pod group train of scheduling.run.ai", id="KAI"),
        pytest.param({}, {"scheduling.x-k8s.io/pod-group": "train"}, "of scheduling.x-k8s.io", id="coscheduling"),
        pytest.param({"yunikorn.apache.org/task-group-name": "w"}, {}, "YuniKorn's task groups", id="YuniKorn"),
        pytest.param(
            {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}, {}, "JobSet's exclusive topology", id="JobSet"
        ),
    ],
)
def test_a_pod_whose_group_nothing_reads_gets_one_event(annotations, labels, text):
    rig = Rig()
    raw = rig.pod("a", metadata={"annotations": annotations, "labels": labels})
    rig.engine.pending.put(raw)
    ((name, note),) = events(rig)
    assert name == "a"
    assert text in note
    assert note.endswith("the pod is scheduled without it")


def test_pods_of_one_owner_get_one_event_together_and_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(unread_groups, "MAX_OWNERS", 2)
    rig = Rig()
    for job in ("x", "y", "z"):
        metadata = {"annotations": VOLCANO, "ownerReferences": [reference(owner(job))]}
        for index in range(3):
            rig.pod(f"{job}-{index}", metadata=metadata)
    assert [name for name, _ in events(rig)] == ["x-0", "y-0", "z-0"]


def test_a_pod_of_a_group_that_is_served_gets_none():
    rig = Rig()
    rig.engine.cache.groups.serve(VOLCANO_API)
    rig.pod("a", metadata={"annotations": VOLCANO})
    rig.pod("b", metadata={"annotations": {"note": "x"}})
    assert events(rig) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minCount": "1"}, [], id="a minimum of one"),
        pytest.param({"minCount": "0"}, [], id="a minimum of none"),
        pytest.param({}, ["a"], id="no minimum"),
    ],
)
@pytest.mark.parametrize("annotations", [VOLCANO, {"yunikorn.apache.org/task-group-name": "w"}])
def test_a_pod_gets_none_if_a_grouping_says_how_many_start_together(spec, expected, annotations):
    rig, job = GroupedRig(), owner("train")
    rig.group(grouping(**spec))
    rig.own(job)
    rig.put(pod_of(job, "a", metadata={"annotations": annotations}))
    assert [name for name, _ in events(rig)] == expected


def test_the_event_names_both_reasons_why_an_api_is_not_read():
    rig = Rig()
    rig.pod("a", metadata={"annotations": VOLCANO})
    ((_, note),) = events(rig)
    assert "which the API server does not serve, or which we may not read" in note
