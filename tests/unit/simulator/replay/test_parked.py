"""Pods that wait outside the queue get the same nodes at the same times as those that are tried at each event, for far
fewer attempts.
"""

import random

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.replay.parked import Parked
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, NodeUpdate, ReplayStream, sorted_events
from support.objects.builders import make_policy
from support.simulator.kit import ZONE, node, pod


def play(initial, *events, end=10_000.0, policies=()):
    stream = ReplayStream(initial=initial, events=sorted_events(events), start=0.0, end=end)
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN, policies)])
    return card


def comes(time, name, runs_for=None, gives_up_at=None, **more):
    return Arrival(time, parse_pod(pod(name, **more)), runs_for, gives_up_at=gives_up_at)


def test_pods_that_wait_in_a_crowd_are_tried_when_there_is_room_for_them():
    full = [comes(0, f"runs-{i}", 100 + i, cpu="1") for i in range(20)]
    crowd = [comes(1 + i, f"waits-{i}", 5, cpu=str(1 + i % 3)) for i in range(300)]
    card = play([node(f"n-{i}") for i in range(5)], *full, *crowd)
    assert card.placed == 320
    # Where there is room for either of two kinds, the second one is tried in vain.
    assert card.attempts <= 2 * 320


def in_zone(zone):
    return {"nodeSelector": {ZONE: zone}}


def random_stream(chance):
    """Three zones, each with pods of one kind and nodes that grow and come, so that it does not matter which pod takes
    which node.
    """
    events, initial = [], []
    for zone in "abc":
        cpu, sizes = chance.randrange(1, 4), [chance.randrange(2, 9) for _ in range(2)]
        initial += [node(f"{zone}-{i}", zone=zone, cpu=str(size)) for i, size in enumerate(sizes)]
        events += [comes(chance.randrange(200), f"{zone}-{i}", 60, cpu=str(cpu), spec=in_zone(zone)) for i in range(40)]
        events += [NodeUpdate(150, f"{zone}-{i}", node(f"{zone}-{i}", zone=zone, cpu=str(size + i))) for i, size in enumerate(sizes)]  # fmt: skip
        events.append(NodeUpdate(200, f"{zone}-2", node(f"{zone}-2", zone=zone, cpu=str(chance.randrange(1, 5)))))
    return initial, events


def outcome(card):
    figures = round(card.waiting.mean, 9), round(card.allocation["cpu"], 9)
    return card.placed, card.never_placed, sum(card.unplaced.values()), figures


@pytest.mark.parametrize("seed", range(6))
def test_the_replay_is_that_in_which_every_event_tries_every_pod_that_it_may_help(seed, monkeypatch):
    initial, events = random_stream(random.Random(seed))
    parked = play(initial, *events, end=400.0)
    monkeypatch.setattr(Parked, "park", lambda *_: False)
    everything = play(initial, *events, end=400.0)
    assert outcome(parked) == outcome(everything)
    assert parked.attempts < everything.attempts


def test_a_pod_that_waits_in_a_line_preempts_where_another_one_has_left():
    important = [comes(2 + i, f"important-{i}", 500, cpu="4", priority=9) for i in range(2)]
    card = play([node("a")], comes(0, "low", 9000, cpu="1"), comes(0, "ends", 50, cpu="3", priority=9), *important)
    assert (card.placed, card.preemptions, card.waiting.longest) == (4, 1, 547)


def test_a_pod_that_gives_up_leaves_its_place_to_the_next_one():
    card = play([node("a", cpu="2")], comes(0, "runs", 100, cpu="2"), comes(1, "leaves", 5, gives_up_at=50, cpu="2"), comes(2, "stays", 5, cpu="2"))  # fmt: skip
    assert (card.placed, card.never_placed, card.waiting.longest) == (2, 1, 98)
    assert list(card.unplaced) == ["0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."]  # fmt: skip


def test_a_pod_that_more_than_its_node_decides_about_stays_in_the_queue():
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip
    pods = [comes(i, f"p-{i}", 50, spec={"affinity": apart}) for i in range(3)]
    card = play([node("a"), node("b")], *pods)
    assert (card.placed, card.waiting.longest) == (3, 98)


def test_pods_in_a_line_are_tried_on_their_own_once_more_than_their_node_decides():
    """The pod that keeps others with its label out of its zone runs on another node than they, and does not keep out
    the second one.
    """
    lonely = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip
    nodes = [node("small", cpu="2"), node("other", cpu="4")]
    runs = comes(0, "runs", 100, cpu="2", spec={"nodeSelector": {"kubernetes.io/hostname": "small"}}, labels={})
    waits = [comes(1 + i, f"waits-{i}", 10, cpu="2", spec={"nodeSelector": {"kubernetes.io/hostname": "small"}}, labels={"app": app}) for i, app in enumerate(["web", "db"])]  # fmt: skip
    keeps = comes(3, "keeps", 200, cpu="1", spec={"nodeSelector": {"kubernetes.io/hostname": "other"}, "affinity": lonely}, labels={})  # fmt: skip
    card = play(nodes, runs, *waits, keeps)
    assert (card.placed, card.waiting.longest) == (4, 202)


def test_a_rule_about_the_pods_of_a_node_is_asked_again_when_a_pod_lands():
    rules = {"filters": [{"name": "beside", "expression": "podsOnNode('app') > 0", "message": "none beside"}]}
    policy = make_policy("beside", match={"podSelector": {"matchLabels": {"tier": "front"}}}, rules=rules)
    fronts = [comes(i, f"front-{i}", 5, labels={"app": "web", "tier": "front"}) for i in range(3)]
    card = play([node("a")], *fronts, comes(10, "web", 500, labels={"app": "web"}), policies=[policy])
    assert (card.placed, card.waiting.longest) == (4, 10)


def test_pods_of_other_lines_are_not_tried_for_room_that_is_taken():
    """Each pod that ends makes room for one pod of any of the 20 kinds that wait."""
    runs = [comes(0, f"runs-{i}", 100 + 10 * i, cpu="8") for i in range(20)]
    kinds = [comes(1, f"waits-{i}-{j}", 1_000, cpu=str(5 + i / 10)) for i in range(20) for j in range(2)]
    card = play([node(f"n-{i}", cpu="8") for i in range(20)], *runs, *kinds)
    assert (card.placed, card.preemptions) == (60, 0)
    assert card.attempts == 60 + len(kinds) / 2
