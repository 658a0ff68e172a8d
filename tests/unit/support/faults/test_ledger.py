"""The ledger of the fault tests tells stale bindings from valid ones."""

from __future__ import annotations

from typing import Any, cast

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from support.faults.ledger import NOTICE_SECONDS, Binding, Ledger, NodeChange
from support.objects.builders import make_node, make_pod, make_taint

OURS, OTHER = "podwright", "default-scheduler"
APART = 10.0
"""Seconds between two changes, long enough for a scheduler to notice."""


class History:
    """Builds the contents of a ledger. Each change happens APART after the one before."""

    def __init__(self) -> None:
        self.ledger = Ledger(cast("Any", None))
        self._version = 0
        self.at = 0.0

    def node(self, name: str = "n", pods: str = "2", **options: Any) -> None:
        raw = make_node(name, allocatable={"pods": pods}, **options)
        self._record(name, NodeChange(parse_node(raw), *self._next()))

    def delete_node(self, name: str = "n") -> None:
        self._record(name, NodeChange(None, *self._next()))

    def bind(self, name: str, node_name: str = "n", scheduler: str = OURS, later: float = APART) -> None:
        pod = parse_pod(make_pod(name, uid=name))
        at, version = self._next(later)
        self.ledger.bindings[name] = Binding(pod, node_name, at, version, scheduler, "")

    def delete_pod(self, name: str) -> None:
        self.ledger.deleted_at[name], _ = self._next()

    def _record(self, name: str, change: NodeChange) -> None:
        self.ledger.nodes.setdefault(name, []).append(change)

    def _next(self, later: float = APART) -> tuple[float, int]:
        self.at += later
        self._version += 1
        return self.at, self._version


def filled(**options: Any) -> History:
    """A node with room for two pods, and two bound pods."""
    history = History()
    history.node(**options)
    history.bind("a")
    history.bind("b")
    return history


def over_filled() -> History:
    history = filled()
    history.bind("c")
    return history


def filled_by_another_scheduler() -> History:
    history = History()
    history.node()
    history.bind("a", scheduler=OTHER)
    history.bind("b", scheduler=OTHER)
    history.bind("c")
    return history


def deleted_node() -> History:
    history = History()
    history.node()
    history.delete_node()
    history.bind("c")
    return history


def tainted() -> History:
    history = History()
    history.node()
    history.node(taints=[make_taint("out-of-order")])
    history.bind("c")
    return history


def shrunk() -> History:
    history = History()
    history.node()
    history.bind("a")
    history.node(pods="1")
    history.bind("c")
    return history


def nonexistent_node() -> History:
    history = History()
    history.node()
    history.bind("c", "no-such-node")
    return history


def node_created_later() -> History:
    history = History()
    history.bind("c")
    history.node()
    return history


def filled_again_after_a_deletion() -> History:
    history = filled()
    history.delete_pod("a")
    history.bind("d")
    history.bind("c")
    return history


@pytest.mark.parametrize(
    ("history", "why"),
    [
        pytest.param(over_filled(), "the node had no room", id="a third pod on a node for two"),
        pytest.param(
            filled_by_another_scheduler(), "the node had no room", id="a node that another scheduler has filled"
        ),
        pytest.param(filled_again_after_a_deletion(), "the node had no room", id="two pods after one was deleted"),
        pytest.param(deleted_node(), "the node was deleted", id="a deleted node"),
        pytest.param(tainted(), "the node had no room", id="a tainted node"),
        pytest.param(shrunk(), "the node had no room", id="a node that shrank to the size of its pods"),
        pytest.param(nonexistent_node(), "the node never existed", id="a node that never existed"),
        pytest.param(node_created_later(), "the node never existed", id="a node that was created later"),
    ],
)
def test_a_binding_against_facts_known_for_long_is_stale(history: History, why: str) -> None:
    (found,) = history.ledger.stale_bindings({OURS})
    assert found.startswith("default/c on ")
    assert found.endswith(why)
    assert history.ledger.noticed_within({OURS}) == float("inf")


def in_place_of_a_deleted_pod() -> History:
    history = filled()
    history.delete_pod("a")
    history.bind("c")
    return history


def re_created_node() -> History:
    history = filled()
    history.delete_pod("a")
    history.delete_pod("b")
    history.delete_node()
    history.node()
    history.bind("c")
    return history


def no_longer_tainted() -> History:
    history = tainted()
    del history.ledger.bindings["c"]
    history.node()
    history.bind("d")
    return history


def stale_binding_by_another_scheduler() -> History:
    history = filled()
    history.bind("c", scheduler=OTHER)
    return history


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(filled(), id="as many pods as the node has room for"),
        pytest.param(in_place_of_a_deleted_pod(), id="a pod in the place of a deleted one"),
        pytest.param(re_created_node(), id="a re-created node"),
        pytest.param(no_longer_tainted(), id="a node without its former taint"),
        pytest.param(stale_binding_by_another_scheduler(), id="a stale binding by another scheduler"),
    ],
)
def test_a_binding_to_a_node_with_room_is_not_stale(history: History) -> None:
    assert history.ledger.stale_bindings({OURS}) == []


def test_recent_bindings_by_another_scheduler_may_be_unknown() -> None:
    history = History()
    history.node()
    history.bind("a")
    history.bind("b", scheduler=OTHER)
    history.bind("c", later=0.7 * NOTICE_SECONDS)
    assert history.ledger.stale_bindings({OURS}) == []
    assert len(history.ledger.stale_bindings({OURS}, within=0.5 * NOTICE_SECONDS)) == 1
    assert history.ledger.noticed_within({OURS}) == NOTICE_SECONDS


def test_a_single_instance_knows_its_own_recent_bindings() -> None:
    history = filled()
    history.bind("c", later=NOTICE_SECONDS / 2)
    assert len(history.ledger.stale_bindings({OURS})) == 1
    assert history.ledger.stale_bindings({OURS}, single_instance=False) == []


def test_recent_deletions_of_nodes_may_be_unknown() -> None:
    history = History()
    history.node()
    history.delete_node()
    history.bind("c", later=NOTICE_SECONDS / 2)
    assert history.ledger.stale_bindings({OURS}) == []


def test_bindings_of_deleted_pods_can_be_dropped() -> None:
    history = over_filled()
    history.delete_pod("c")
    history.ledger.forget_deleted()
    assert history.ledger.stale_bindings({OURS}) == []
    assert history.ledger.bindings.keys() == {"a", "b"}
