"""The ledger of the fault tests tells bindings that nobody should have made from those that are in order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from support.faults.ledger import NOTICED, Binding, Ledger, NodeChange
from support.objects.builders import make_node, make_pod, make_taint

OURS, RIVAL = "podwright", "default-scheduler"
APART = 10.0
"""Seconds between any two things that happen: more than it may take to notice."""


class History:
    """What a ledger has noted: each thing happens APART after the one before."""

    def __init__(self) -> None:
        self.ledger = Ledger(cast("Any", None))
        self._version = 0
        self.at = 0.0

    def node(self, name: str = "n", pods: str = "2", **options: Any) -> None:
        raw = make_node(name, allocatable={"pods": pods}, **options)
        self._note(name, NodeChange(parse_node(raw), *self._next()))

    def node_goes(self, name: str = "n") -> None:
        self._note(name, NodeChange(None, *self._next()))

    def bind(self, name: str, node_name: str = "n", scheduler: str = OURS, later: float = APART) -> None:
        pod = parse_pod(make_pod(name, uid=name))
        at, version = self._next(later)
        self.ledger.bindings[name] = Binding(pod, node_name, at, version, scheduler)

    def pod_goes(self, name: str) -> None:
        self.ledger.gone[name], _ = self._next()

    def _note(self, name: str, change: NodeChange) -> None:
        self.ledger.nodes.setdefault(name, []).append(change)

    def _next(self, later: float = APART) -> tuple[float, int]:
        self.at += later
        self._version += 1
        return self.at, self._version


def filled(**options: Any) -> History:
    """A node for two pods, with two."""
    history = History()
    history.node(**options)
    history.bind("a")
    history.bind("b")
    return history


def over_filled() -> History:
    history = filled()
    history.bind("c")
    return history


def filled_by_a_rival() -> History:
    history = History()
    history.node()
    history.bind("a", scheduler=RIVAL)
    history.bind("b", scheduler=RIVAL)
    history.bind("c")
    return history


def vanished() -> History:
    history = History()
    history.node()
    history.node_goes()
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


def never_there() -> History:
    history = History()
    history.node()
    history.bind("c", "no-such-node")
    return history


def not_yet_there() -> History:
    history = History()
    history.bind("c")
    history.node()
    return history


def crowded_after_others_went() -> History:
    history = filled()
    history.pod_goes("a")
    history.bind("d")
    history.bind("c")
    return history


@pytest.mark.parametrize(
    ("history", "why"),
    [
        pytest.param(over_filled(), "no room any more", id="a third pod on a node for two"),
        pytest.param(filled_by_a_rival(), "no room any more", id="a node that a rival has filled"),
        pytest.param(crowded_after_others_went(), "no room any more", id="one went and two came"),
        pytest.param(vanished(), "no such node any more", id="a node that vanished"),
        pytest.param(tainted(), "no room any more", id="a node that was tainted"),
        pytest.param(shrunk(), "no room any more", id="a node that shrank to what is on it"),
        pytest.param(never_there(), "there never was such a node", id="a node that never existed"),
        pytest.param(not_yet_there(), "there never was such a node", id="a node that came only later"),
    ],
)
def test_a_binding_against_what_was_long_known_is_careless(history: History, why: str) -> None:
    (found,) = history.ledger.careless({OURS})
    assert found.startswith("default/c on ")
    assert found.endswith(why)
    assert history.ledger.noticed_within({OURS}) == float("inf")


def in_place_of_one_that_went() -> History:
    history = filled()
    history.pod_goes("a")
    history.bind("c")
    return history


def back_again() -> History:
    history = filled()
    history.pod_goes("a")
    history.pod_goes("b")
    history.node_goes()
    history.node()
    history.bind("c")
    return history


def no_longer_tainted() -> History:
    history = tainted()
    del history.ledger.bindings["c"]
    history.node()
    history.bind("d")
    return history


def by_the_rival_only() -> History:
    history = filled()
    history.bind("c", scheduler=RIVAL)
    return history


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(filled(), id="as many pods as there is room for"),
        pytest.param(in_place_of_one_that_went(), id="a pod in the place of one that was gone by then"),
        pytest.param(back_again(), id="a node that is there again"),
        pytest.param(no_longer_tainted(), id="a node that is no longer tainted"),
        pytest.param(by_the_rival_only(), id="somebody else was careless"),
    ],
)
def test_a_binding_to_a_node_with_room_is_not_careless(history: History) -> None:
    assert history.ledger.careless({OURS}) == []


def test_what_a_rival_did_just_before_could_not_be_known_yet() -> None:
    history = History()
    history.node()
    history.bind("a")
    history.bind("b", scheduler=RIVAL)
    history.bind("c", later=0.7 * NOTICED)
    assert history.ledger.careless({OURS}) == []
    assert len(history.ledger.careless({OURS}, within=0.5 * NOTICED)) == 1
    assert history.ledger.noticed_within({OURS}) == NOTICED


def test_what_we_did_ourselves_just_before_is_known_if_we_are_alone() -> None:
    history = filled()
    history.bind("c", later=NOTICED / 2)
    assert len(history.ledger.careless({OURS})) == 1
    assert history.ledger.careless({OURS}, alone=False) == []


def test_what_vanished_just_before_could_not_be_known_yet() -> None:
    history = History()
    history.node()
    history.node_goes()
    history.bind("c", later=NOTICED / 2)
    assert history.ledger.careless({OURS}) == []


def test_pods_that_are_gone_are_forgotten_on_request() -> None:
    history = over_filled()
    history.pod_goes("c")
    history.ledger.forget_gone()
    assert history.ledger.careless({OURS}) == []
    assert history.ledger.bindings.keys() == {"a", "b"}
