"""Cluster events: the masks of actions, and labels, and which registrations cover an event."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import ANY, ASSIGNED_POD, NODE, POD, Action, ClusterEvent


@pytest.mark.parametrize("action", Action, ids=lambda action: action.name)
def test_all_covers_every_action(action):
    assert action in Action.ALL


def test_update_covers_every_kind_of_update_and_nothing_else():
    updates = [action for action in Action if action not in (Action.ADD, Action.DELETE)]
    assert updates == [action for action in Action if action.name.startswith("UPDATE_")]
    assert list(Action.UPDATE) == updates


@pytest.mark.parametrize(
    ("registered", "covered"),
    [
        pytest.param(ClusterEvent(ANY, Action.ALL), True, id="any kind and all actions"),
        pytest.param(ClusterEvent(NODE, Action.UPDATE), True, id="any update"),
        pytest.param(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), True, id="one of two actions"),
        pytest.param(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), False, id="another action"),
        pytest.param(ClusterEvent(POD, Action.ALL), False, id="another kind"),
    ],
)
def test_a_registration_covers_an_event_of_its_kind_and_actions(registered, covered):
    assert registered.matches(ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)) is covered


@pytest.mark.parametrize(
    ("event", "label"),
    [
        pytest.param(ClusterEvent(ASSIGNED_POD, Action.DELETE), "AssignedPodDelete", id="an assigned pod was deleted"),
        pytest.param(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint", id="one change of a node"),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL),
            "NodeUpdate",
            id="several changes of a node",
        ),
        pytest.param(ClusterEvent("CSINode", Action.ADD), "storage.k8s.io/CSINodeAdd", id="a kind with an API group"),
        pytest.param(
            ClusterEvent("ResourceClaim", Action.UPDATE_OTHER),
            "resource.k8s.io/ResourceClaimUpdate",
            id="an update of a kind with an API group",
        ),
        pytest.param(
            ClusterEvent("PersistentVolumeClaim", Action.DELETE),
            "PersistentVolumeClaimDelete",
            id="a kind without an API group",
        ),
        pytest.param(
            ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_UP),
            "AssignedPodUpdatePodScaleUp",
            id="an assigned pod was scaled up",
        ),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE_POD_LABEL), "TargetPodUpdatePodLabel", id="the pending pod itself"
        ),
    ],
)
def test_events_have_the_labels_of_kube_scheduler(event, label):
    assert event.label == label
