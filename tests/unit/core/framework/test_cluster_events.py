"""Cluster events: the masks of actions, and which registrations cover an event."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import ANY, NODE, POD, Action, ClusterEvent


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
