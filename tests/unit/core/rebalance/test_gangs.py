"""Room for gangs that wait: as few moves as possible, after which the gang's own plan places it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from math import inf
from random import Random

import pytest

from podwright.core.framework.features import Features
from podwright.core.objects.resources import CPU
from podwright.core.rebalance.gangs import RoomSearch, fewest_moves, places_of, room_of, waiting_gang, waiting_gangs
from podwright.core.rebalance.planner import MOST_GANGS, RebalancePlanner
from podwright.simulator.rebalance import view_of
from support.gangs.highs import by_highs
from support.objects.builders import in_group, make_pod_group
from support.rebalance.kit import ZONE, budget, carry_out, gang, item, loaded, node, old, plan_of, rules
from support.simulator.kit import copy_of, pod

GANGS = [{"type": "MakeRoom", "gangs": ["*"]}]


def asked(**spec):
    return rules(**{"goals": GANGS, "maxMoves": 1000, **spec})


def starts(cluster, key):
    """True if the gang has a place now."""
    waits = waiting_gang(cluster.cache, key)
    return bool(places_of(waits, view_of(cluster).framework_of(waits.members[0]), cluster.cache))


def key(name):
    return f"scheduling.x-k8s.io:default/{name}"


def spread(nodes, used, each=1, cpu="8"):
    """Nodes with as many pods of 1 CPU as are given."""
    made = [node(f"n{number:03}", cpu=cpu) for number in range(nodes)]
    return [*made, *(old(f"p{n:03}-{i}", f"n{n:03}", str(each)) for n in range(nodes) for i in range(used))]


def test_a_gang_gets_room_with_one_move_for_each_member():
    cluster = loaded(*spread(4, 3), *gang("train", 2, "6"))
    before = copy_of(cluster)
    plan = plan_of(cluster, asked())
    assert copy_of(cluster) == before
    (step,) = plan.steps
    assert (len(step.moves), step.gain, step.gang) == (2, 2, key("train"))
    assert step.why == "makes room for pod group default/train"
    assert {*step.places.values()} == {move.source for move in step.moves}
    assert not starts(cluster, key("train"))
    carry_out(cluster, plan, asked())
    assert starts(cluster, key("train"))


@pytest.mark.parametrize("looks", [0, 1])
def test_gangs_that_are_not_looked_into_in_time_move_nothing(looks):
    """The time is over before the first one is looked into, or while its room is searched for."""
    cluster = loaded(*spread(2, 1, cpu="4"), *gang("one", 1, "4"), *gang("two", 1, "4"))
    elapsed = iter([0.0] * looks + [99.0] * 99).__next__
    plan = RebalancePlanner(cluster.cache, asked(), replace(view_of(cluster), elapsed=elapsed)).plan()
    assert not plan.steps
    assert [str(each) for each in plan.held_back] == ["2 pod groups: the plan has taken 12 s before"]
    assert plan_of(cluster, asked()).steps


def test_a_gang_that_has_room_needs_no_moves_and_others_leave_it_that_room():
    cluster = loaded(
        *spread(3, 3),
        node("free", cpu="12"),
        *gang("first", 2, "6", created="2023-11-01T00:00:00Z"),
        *gang("second", 1, "6"),
    )
    plan = plan_of(cluster, asked())
    (step,) = plan.steps
    assert step.gang == key("second")
    assert "free" not in {*step.places.values(), *(move.target for move in step.moves)}


def test_only_what_the_gang_needs_to_start_gets_room():
    cluster = loaded(*spread(4, 3), *gang("train", 4, "6", minimum=1))
    (step,) = plan_of(cluster, asked()).steps
    assert (len(step.moves), step.gain) == (1, 1)


def test_all_or_nothing_of_a_gang_gets_room():
    cluster = loaded(*spread(4, 3), *gang("train", 4, "6"))
    plan = plan_of(cluster, asked())
    assert not plan.steps
    assert [str(each) for each in plan.held_back] == ["1 pod group: no other nodes take the pods that are in its way"]


@pytest.mark.parametrize(
    ("names", "moved"),
    [(["*"], True), (["default/*"], True), (["default/train"], True), (["default/other"], False), (["other/*"], False)],
)
def test_gangs_are_named(names, moved):
    cluster = loaded(*spread(4, 3), *gang("train", 2, "6"))
    assert bool(plan_of(cluster, asked(goals=[{"type": "MakeRoom", "gangs": names}])).steps) is moved


def test_a_gang_is_not_compared_with_each_of_many_names():
    """All gangs are looked at in the loop while policies wait for some of them."""
    compared = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(other)
            return str.__eq__(self, other)

    cluster = loaded(node("n0"), *(each for i in range(20) for each in gang(f"g{i}", 1, "9")))
    names = [Name(f"default/none{i}") for i in range(62)]
    for given, found in ((names, 0), ([*names, Name("default/g7")], 1), ([*names, Name("default/*")], 20)):
        compared.clear()
        assert len(waiting_gangs(cluster.cache, replace(asked(), gangs=given))) == found
        assert len(compared) <= found


def test_a_gang_of_one_zone_gets_the_zone_with_the_fewest_moves():
    nodes = [node(f"{zone}{i}", zone, cpu="8") for zone in "ab" for i in range(3)]
    pods = [
        old(f"{zone}{i}-{j}", f"{zone}{i}", cpu)
        for zone, cpu, count in (("a", "1", 4), ("b", "2", 2))
        for i in range(2)
        for j in range(count)
    ]
    constraints = {"topology": [{"key": ZONE}]}
    members = [
        item("PodGroup", make_pod_group("train", 2, schedulingConstraints=constraints), "scheduling.k8s.io/v1beta1"),
        *(pod(f"train-{i}", "", "7", owner="train", spec=in_group("train")) for i in range(2)),
    ]
    full = [old(f"full-{zone}", f"{zone}2", "3") for zone in "ab"]
    cluster = loaded(
        *nodes,
        *pods,
        *full,
        *members,
        features=Features({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}),
    )
    (step,) = plan_of(cluster, asked()).steps
    assert {place[0] for place in step.places.values()} == {"b"}
    carry_out(cluster, plan_of(cluster, asked()), asked())
    assert starts(cluster, "scheduling.k8s.io:default/train")


def test_budgets_hold_and_other_pods_are_moved_instead():
    protected = [old(f"kept{i}", f"n{i:03}", "3", labels={"app": "kept"}) for i in range(2)]
    cluster = loaded(
        *(node(f"n{i:03}", cpu="8") for i in range(6)), *protected,
        *(old(f"p{i}-{j}", f"n{i:03}", "1") for i in range(2, 6) for j in range(3)),
        budget(0, "kept"), *gang("train", 2, "6"),
    )  # fmt: skip
    (step,) = plan_of(cluster, asked()).steps
    assert all(move.pod.startswith("default/p") for move in step.moves)
    only = loaded(
        *(node(f"n{i}", cpu="8") for i in range(2)),
        old("kept0", "n0", "3"),
        old("kept1", "n1", "3"),
        budget(0),
        *gang("train", 1, "6"),
    )
    assert not plan_of(only, asked()).steps


def test_moves_are_bounded_by_the_policy():
    cluster = loaded(*spread(4, 3), *gang("train", 2, "6"))
    plan = plan_of(cluster, asked(maxMoves=1))
    assert [str(each) for each in plan.held_back] == ["1 pod group: needs more moves than maxMoves allows"]
    assert not plan.steps


def proved(cluster, step):
    return RebalancePlanner(cluster.cache, asked(), view_of(cluster)).prove(step)


def test_a_step_is_refused_once_the_gang_does_not_wait_or_another_took_the_room():
    cluster = loaded(*spread(4, 3), *gang("train", 2, "6"))
    (step,) = plan_of(cluster, asked()).steps
    assert proved(cluster, step) == ""
    member = cluster.pending["default/train-0"]
    cluster.cache.assume(member, step.moves[0].target)
    assert "does not take pod" in proved(cluster, step)
    cluster.cache.forget(member.uid)
    cluster.cache.groups.remove_waiting(member.uid)
    assert proved(cluster, step) == "pod group default/train does not wait any more, or has other pods"


def test_the_shape_of_a_consolidation_of_500_nodes():
    """500 nodes with 5 free GPUs each, and 41 gangs of 10 pods with 6 GPUs each: each pod needs one move."""
    cluster = loaded(*spread(500, 3), *(each for n in range(41) for each in gang(f"g{n:02}", 10, "6")))
    plan = plan_of(cluster, asked(), solve=partial(pytest.fail, "asked"))
    assert (len(plan.steps), len(plan.moves), plan.gain) == (41, 410, 410)
    assert {move.source for move in plan.moves}.isdisjoint({move.target for move in plan.moves})


def fewest(sizes, capacity, members, size):
    """The fewest moves after which this many pods of a size fit on the nodes with pods of these sizes; None if no
    moves do. Exact: all choices of pods to move, and all ways to place them.
    """
    pods = [(n, each) for n, on in enumerate(sizes) for each in on]

    def fits(left, free):
        @cache
        def placed(number, free):
            if number == len(left):
                return True
            return any(
                room >= left[number]
                and placed(number + 1, tuple(sorted((*free[:i], room - left[number], *free[i + 1 :]))))
                for i, room in enumerate(free)
                if i == 0 or free[i - 1] != room
            )

        return placed(0, tuple(sorted(free)))

    for count in range(len(pods) + 1):
        for chosen in combinations(pods, count):
            free = [capacity - sum(on) for on in sizes]
            for n, each in chosen:
                free[n] += each
            if sum(room // size for room in free) >= members:
                moved = sorted((each for _, each in chosen), reverse=True)
                if fits((*[size] * members, *moved), tuple(free)):
                    return count
    return None


@pytest.mark.parametrize("seed", range(30))
def test_moves_are_at_most_a_fifth_more_than_the_fewest_that_there_are(seed):
    random = Random(seed)
    sizes = [[random.choice((1, 1, 2)) for _ in range(random.randint(1, 3))] for _ in range(5)]
    members = random.randint(1, 2)
    nodes = [node(f"n{i}", cpu="8") for i in range(5)]
    pods = [old(f"p{n}-{i}", f"n{n}", str(each)) for n, on in enumerate(sizes) for i, each in enumerate(on)]
    cluster = loaded(*nodes, *pods, *gang("train", members, "6"))
    plan, exact = plan_of(cluster, asked()), fewest(sizes, 8, members, 6)
    bound = fewest_moves(cluster.cache, waiting_gang(cluster.cache, key("train")), {CPU: 2000})
    if exact:
        assert 0 < bound <= exact
        assert exact <= len(plan.moves) <= 1.2 * exact
        assert len(plan_of(cluster, asked(), solve=by_highs).moves) == exact
    else:
        assert not plan.moves


@pytest.mark.parametrize(
    ("sizes", "members", "moves"),
    [([[3], [3]], 2, 2), ([[2], [3]], 2, 1), ([[8], [8]], 2, 1), ([[8], [8]], 3, 2), ([[2], [2]], 2, 0)],
    ids=["each needs one", "one has room", "one move for two", "one move for at most two", "all have room"],
)
def test_no_fewer_moves_make_room_than_what_members_request_tells(sizes, members, moves):
    nodes = [node(f"n{i}", cpu="8") for i in range(len(sizes))]
    pods = [old(f"p{n}-{i}", f"n{n}", str(each)) for n, on in enumerate(sizes) for i, each in enumerate(on)]
    cluster = loaded(*nodes, *pods, *gang("train", members, "6"))
    largest = {CPU: max(each for on in sizes for each in on) * 1000}
    assert fewest_moves(cluster.cache, waiting_gang(cluster.cache, key("train")), largest) == moves


def test_many_gangs_without_room_cost_a_bounded_search_in_each_namespace(monkeypatch):
    """Of 1,000 gangs of one tenant, a plan would take longer than it may, and others would get none."""
    searched = []
    moves = RoomSearch.moves

    def counted(search):
        searched.append(search.gang.name)
        return moves(search)

    monkeypatch.setattr(RoomSearch, "moves", counted)
    other = gang("train", 2, "6")
    for each in other:
        each["metadata"]["namespace"] = "research"
    cluster = loaded(*spread(4, 3), *(each for n in range(MOST_GANGS + 3) for each in gang(f"big{n}", 1, "9")), *other)
    plan = plan_of(cluster, asked())
    assert len(searched) == MOST_GANGS + 1
    assert [step.gang for step in plan.steps] == ["scheduling.x-k8s.io:research/train"]
    assert f"3 pod groups: are behind {MOST_GANGS} others of their namespace that get no room" in map(
        str, plan.held_back
    )


def composite(*parts, minimum=None, **spec):
    """A composite group of gangs that wait, each of so many pods with as many CPUs."""
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": minimum or len(parts)}}}
    made = [item("CompositePodGroup", {"metadata": {"name": "llm", "namespace": "default", "uid": "llm"}, "spec": policy}, "scheduling.k8s.io/v1alpha3")]  # fmt: skip
    for number, (members, cpu) in enumerate(parts):
        group = make_pod_group(f"part{number}", members, parentCompositePodGroupName="llm", **spec)
        made.append(item("PodGroup", group, "scheduling.k8s.io/v1beta1"))
        made += [
            pod(f"part{number}-{i}", "", cpu, owner=f"part{number}", spec=in_group(f"part{number}"))
            for i in range(members)
        ]
    return made


def with_composite(*objects):
    gates = ("GenericWorkload", "CompositePodGroup", "TopologyAwareWorkloadScheduling")
    return loaded(*objects, features=Features(dict.fromkeys(gates, True)))


LLM = "composite.scheduling.k8s.io:default/llm"


def test_all_parts_of_a_composite_group_get_room():
    cluster = with_composite(*spread(6, 3), *composite((2, "6"), (1, "7")))
    before = copy_of(cluster)
    plan = plan_of(cluster, asked())
    assert copy_of(cluster) == before
    (step,) = plan.steps
    assert (step.gang, len(step.moves), len(step.places)) == (LLM, 4, 3)
    assert not starts(cluster, LLM)
    carry_out(cluster, plan, asked())
    assert not starts(cluster, LLM), "a small member takes the room of the large one"
    for held in room_of(waiting_gang(cluster.cache, LLM), cluster.cache, step.places, inf):
        cluster.cache.reservations.set(held)
    assert starts(cluster, LLM)


def test_only_the_parts_that_a_composite_group_needs_get_room():
    cluster = with_composite(*spread(6, 3), *composite((2, "6"), (1, "7"), minimum=1))
    (step,) = plan_of(cluster, asked()).steps
    assert [uid.rpartition("/")[2] for uid in step.places] == ["part1-0"]


def test_all_or_nothing_of_a_composite_group_gets_room():
    assert not plan_of(with_composite(*spread(6, 3), *composite((2, "6"), (1, "9"))), asked()).steps


def test_each_part_of_a_composite_group_gets_a_zone_of_its_own():
    """Of each zone, two of three nodes can have 6 CPUs free."""
    nodes = [node(f"{zone}{i}", zone, cpu="8") for zone in "ab" for i in range(3)]
    pods = [old(f"{zone}{i}-{j}", f"{zone}{i}", "1") for zone in "ab" for i in range(3) for j in range(3)]
    close = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
    cluster = with_composite(*nodes, *pods, *composite((2, "6"), (2, "6"), **close))
    plan = plan_of(cluster, asked())
    zones = {}
    for uid, place in plan.steps[0].places.items():
        zones.setdefault(uid.rpartition("/")[2][:5], set()).add(place[0])
    assert sorted(map(sorted, zones.values())) == [["a"], ["b"]]
    carry_out(cluster, plan, asked())
    assert starts(cluster, LLM)


def test_the_exact_search_knows_the_parts_of_a_group():
    cluster = with_composite(*spread(6, 3), *composite((2, "6"), (1, "7")))
    local, best = plan_of(cluster, asked()), plan_of(cluster, asked(), solve=by_highs)
    assert len(best.moves) == len(local.moves) == 4
    assert best.exact
