"""Gangs whose members do not fit one after the other are planned jointly, and what the program proves is true."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from operator import mul
from typing import Any

import numpy as np
import pytest

from podwright.core.cycle import Placement
from podwright.core.framework import program
from podwright.core.framework.program import LARGEST, Answer, Rows
from podwright.core.gangs import joint
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.joint import (
    COUNTED,
    IN_ROUNDS,
    IN_TIME,
    IN_WORK,
    NOT_PLANNED,
    PROVED,
    REFUSED,
    TOO_LARGE,
)
from podwright.core.gangs.plan import decide
from podwright.core.gangs.simulation import Simulation
from podwright.core.objects.pod import parse_pod
from podwright.core.state.transaction import CacheTransaction
from support.gangs.highs import by_highs
from support.gangs.kit import HOST, NOW, ZONE, FullCluster, one, room
from support.gangs.members import MixedCluster, even, near
from support.objects.builders import make_node, make_pod
from support.properties import examples

CASES = examples(40)


def jointly(cluster, solver=by_highs):
    before = cluster.cache.table.requested("cpu").copy()
    decision = decide(replace(cluster.planner, solve=solver), cluster.members, NOW)
    assert (cluster.cache.table.requested("cpu") == before).all(), "the cache is as it was"
    return decision


def nodes_of(decision) -> dict[str, str]:
    assert isinstance(decision, GangPlacement), decision
    return {placement.pod.name: placement.node_name for placement in decision.placements}


class TestPlacements:
    def test_a_small_member_leaves_the_large_node_to_the_large_one(self):
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        assert isinstance(decide(cluster.planner, cluster.members, NOW), GangRejection)
        assert nodes_of(jointly(cluster)) == {"s0": "small", "l0": "large"}

    def test_a_member_that_others_need_beside_them_comes_first(self):
        nodes = [room("a", 3), room("b", 9)]
        cluster = MixedCluster(nodes, [("f", 2, near("l", HOST)), ("f", 2, near("l", HOST)), ("l", 4, {})])
        assert nodes_of(jointly(cluster)) == {"l0": "b", "f0": "b", "f1": "b"}

    def test_members_that_attract_themselves_choose_the_domain_with_room(self):
        nodes = [room("a", 5, "x"), room("b", 4, "y"), room("c", 4, "y")]
        cluster = MixedCluster(nodes, [("m", 4, near("m", ZONE)), ("m", 4, near("m", ZONE))])
        assert set(nodes_of(jointly(cluster)).values()) == {"b", "c"}

    def test_members_that_are_more_than_the_minimum_are_placed_too(self):
        cluster = MixedCluster(
            [room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {}), ("x", 9, {})], min_count=2
        )
        decision = jointly(cluster)
        assert nodes_of(decision) == {"s0": "small", "l0": "large"}
        assert [rejection.pod.name for rejection in decision.rejections] == ["x0"]

    def test_all_are_in_one_domain_of_the_topology_key(self):
        nodes = [room("a", 8, "x"), room("b", 8, "y"), room("c", 3, "y"), room("d", 3, "x"), room("e", 7, "x")]
        topology = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        members = [("s", 3, {}), ("l", 8, {}), ("k", 7, {})]
        found = nodes_of(jointly(MixedCluster(nodes, members, group=topology)))
        assert found == {"s0": "d", "l0": "a", "k0": "e"}

    def test_a_solution_that_a_filter_refuses_is_replaced_by_another_one(self):
        """The program knows of ports, the solver does not care."""
        port = {"hostPort": 80, "containerPort": 80}
        ports = {"containers": [{"name": "c", "ports": [port], "resources": {"requests": {"cpu": "4"}}}]}
        nodes = [room("a", 8), room("b", 8), room("c", 3)]
        cluster = MixedCluster(nodes, [("s", 3, {}), ("p", 4, ports), ("q", 4, ports), ("r", 4, {}), ("t", 4, {})])
        asked = []

        def both_on_one_node(program, seconds):
            asked.append(program)
            if len(asked) > 1:
                return by_highs(program, seconds)
            s, (p, q, r, t) = (0, 0, 1), ((1, 0), (1, 0), (0, 1), (0, 1))
            return Answer(np.array([*s, *p, *q, *r, *t, 1]))

        found = nodes_of(jointly(cluster, both_on_one_node))
        assert {found["p0"], found["q0"]} == {"a", "b"}
        assert len(asked) == 2

    def test_the_fewest_pods_of_a_domain_rise_with_all_members_that_count(self):
        """Also if these are more than the members whose constraint counts them."""
        placed = [one(f"p{i}", "big", labels={"kind": "b"}, priority=1000) for i in range(10)]
        pinned = {"nodeSelector": {HOST: "other"}}
        members = [("a", 14, even("b", ZONE)), *[("b", 1, pinned)] * 10]
        cluster = MixedCluster([room("big", 30, "x"), room("other", 12, "y")], members, placed=placed)
        assert nodes_of(jointly(cluster))["a0"] == "big"

    def test_a_member_that_is_nominated_leaves_its_node_to_one_of_another_kind(self):
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        cluster.cache.nominator.add(cluster.members[0], "large")
        assert nodes_of(jointly(cluster)) == {"s0": "small", "l0": "large"}


class TestClose:
    """Members whose policy prefers one rack, where they do not fit one after the other."""

    RACK = "example.com/rack"

    def cluster(self, cpus: dict[str, int], sizes: list[int]) -> MixedCluster:
        """`cpus`: those of each node, by `zone/rack/host`. `sizes`: the CPUs of each member."""
        nodes = []
        for path, cpu in cpus.items():
            zone, rack, _ = path.split("/")
            nodes.append(room(path.replace("/", "-"), cpu, zone))
            nodes[-1]["metadata"]["labels"] |= {self.RACK: f"{zone}-{rack}"} if rack else {}
        cluster = MixedCluster(nodes, [(f"s{size}", size, {}) for size in sizes])
        cluster.cache.topologies.set("podwright.dev/default", (ZONE, self.RACK, HOST))
        return cluster

    def plan(self, cluster: MixedCluster, solver: Any = by_highs) -> dict[str, str]:
        planner = replace(cluster.planner, pack_by=self.RACK)
        made = joint.Joint(
            framework=planner.framework,
            cache=planner.cache,
            group=planner.group,
            near=planner.near,
            below=planner.below,
            solve=solver,
        )
        return nodes_of(made.plan(cluster.members))

    def test_the_fullest_domain_that_takes_all(self):
        nodes = {"x/a/1": 4, "x/a/2": 8, "x/a/3": 8, "y/a/1": 3, "y/a/2": 8, "y/b/1": 8, "y/b/2": 8, "y/b/3": 5}
        assert set(self.plan(self.cluster(nodes, [3, 8])).values()) == {"y-a-1", "y-a-2"}

    @pytest.mark.parametrize("fuller", ["x", "y"])
    def test_the_fullest_domain_of_a_level_that_is_only_required(self, fuller):
        nodes = [room(f"{zone}{cpu}", cpu, zone) for zone in ("x", "y") for cpu in (8, 3)]
        nodes += [room(f"more{index}", 3, "y" if fuller == "x" else "x") for index in range(2)]
        topology = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        found = nodes_of(jointly(MixedCluster(nodes, [("s", 3, {}), ("l", 8, {})], group=topology)))
        assert found == {"s0": f"{fuller}3", "l0": f"{fuller}8"}

    def test_nodes_without_the_label_come_last(self):
        nodes = {"x//1": 8, "x//2": 8, "x/a/1": 8, "x/b/1": 8}
        assert set(self.plan(self.cluster(nodes, [7, 7])).values()) == {"x-a-1", "x-b-1"}

    def test_where_members_are_costs_nothing(self):
        cluster = self.cluster({"x/a/1": 8, "x/a/2": 8, "y/a/1": 4, "y/a/2": 3}, [3, 4, 4])
        cluster.cache.assume(cluster.members[1], "x-a-1")
        del cluster.members[1]
        assert set(self.plan(cluster).values()) <= {"x-a-1", "x-a-2"}

    def test_without_a_better_answer_the_first_one_counts(self):
        asked = []

        def only_once(program, seconds):
            asked.append(program)
            return by_highs(program, seconds) if len(asked) == 1 else Answer(problem="it hung")

        assert len(self.plan(self.cluster({"x/a/1": 8, "y/a/1": 8}, [8, 8]), only_once)) == 2
        assert len(asked) == 2

    @pytest.mark.parametrize("seed", range(CASES))
    def test_in_as_few_zones_and_racks_as_any_placement(self, seed):
        choose = random.Random(seed)
        paths = [f"{zone}/{rack}/{host}" for zone in "xy" for rack in "ab" for host in range(choose.randint(1, 2))]
        cpus = {path: choose.randint(1, 6) for path in paths}
        sizes = [choose.randint(1, 3) for _ in range(choose.randint(2, 4))]
        best = None
        for chosen in itertools.product(paths, repeat=len(sizes)):
            used = Counter()
            for path, size in zip(chosen, sizes, strict=True):
                used[path] += size
            if all(used[path] <= cpus[path] for path in used):
                spread = len({path[0] for path in chosen}), len({path[:3] for path in chosen})
                best = min(best or spread, spread)
        cluster = self.cluster(cpus, sizes)
        if best is None:
            assert isinstance(jointly(cluster), GangRejection)
            return
        found = self.plan(cluster).values()
        assert (len({name[0] for name in found}), len({name[:3] for name in found})) == best


class TestProofs:
    def test_by_counting(self):
        cluster = FullCluster([room("a", 1), room("b", 1)], members=3, min_count=3)
        decision = jointly(cluster, lambda *_: pytest.fail("counting is enough"))
        assert COUNTED in decision.message

    def test_by_counting_without_the_room_that_others_are_nominated_to(self):
        cluster = MixedCluster([room("large", 8), room("small", 3), room("held", 9)], [("s", 3, {}), ("l", 8, {})])
        cluster.cache.nominator.add(parse_pod(make_pod("first", requests={"cpu": "8"}, priority=100)), "large")
        assert nodes_of(jointly(cluster)) == {"s0": "small", "l0": "held"}
        for number in range(2):
            cluster.cache.nominator.add(
                parse_pod(make_pod(f"next-{number}", requests={"cpu": "4"}, priority=100)), "held"
            )
        decision = jointly(cluster, lambda *_: pytest.fail("counting is enough"))
        assert COUNTED in decision.message

    def test_room_that_less_important_pods_are_nominated_to_counts(self):
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        cluster.cache.nominator.add(parse_pod(make_pod("first", requests={"cpu": "8"}, priority=-1)), "large")
        assert nodes_of(jointly(cluster)) == {"s0": "small", "l0": "large"}

    def test_by_the_program(self):
        cluster = MixedCluster([room("a", 5), room("b", 5)], [("m", 2, near("m", HOST, anti=True))] * 3)
        assert PROVED in jointly(cluster).message

    def test_of_ports_of_hosts(self):
        def port(number: int) -> dict[str, Any]:
            ports = [{"hostPort": number, "containerPort": 80}]
            return {"containers": [{"name": "c", "ports": ports, "resources": {"requests": {"cpu": "2"}}}]}

        nodes, taken = [room(name, 6) for name in "abc"], one("web", "c", 1000, spec=port(80))
        fits = [("m", 2, port(80)), ("m", 2, port(80)), ("n", 2, port(81)), ("o", 2, port(81))]
        cluster = MixedCluster(nodes, fits, placed=[taken])
        assert len(nodes_of(jointly(cluster))) == 4
        cluster = MixedCluster(nodes, [*fits, ("m", 2, port(80))], placed=[taken])
        assert PROVED in jointly(cluster).message

    def test_none_after_a_filter_has_refused_a_solution(self):
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])

        asked = []

        def wrong(program, _seconds):
            asked.append(program)
            return Answer(program.most.astype(np.int64)) if len(asked) == 1 else Answer(proved=True)

        assert REFUSED in jointly(cluster, wrong).message
        assert len(asked) == 2

    @pytest.mark.parametrize(
        ("bound", "seconds", "end"),
        [("MAX_WORK", 0, IN_WORK), ("MAX_ROUNDS", 0, IN_ROUNDS), ("SECONDS", 5, IN_TIME)],
    )
    def test_the_bound_that_ends_the_search_is_told(self, monkeypatch, bound, seconds, end):
        monkeypatch.setattr(joint, bound, 1)
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        asked = []
        wrong = lambda *_: (asked.append(1), Answer(np.full(5, 1), seconds=seconds))[1]
        assert end in jointly(cluster, wrong).message
        assert len(asked) == 1

    def test_nothing_is_planned_that_is_too_large(self, monkeypatch):
        monkeypatch.setattr(program, "MAX_ENTRIES", 5)
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        assert TOO_LARGE in jointly(cluster, lambda *_: pytest.fail("it is too large")).message

    def test_a_problem_of_the_solver_is_told(self):
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        message = jointly(cluster, lambda *_: Answer(problem="it is out")).message
        assert f"{NOT_PLANNED}it is out" in message

    def test_members_without_a_common_domain_are_told(self, monkeypatch):
        def none(*_args):
            raise ValueError("more than 1 domain found")

        monkeypatch.setattr(joint, "JointProgram", none)
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})])
        message = jointly(cluster, lambda *_: pytest.fail("there is no program")).message
        assert f"{NOT_PLANNED}more than 1 domain found" in message


def some_order_fits(cluster: FullCluster) -> bool:
    """True if all members can be placed one after the other in any order on any nodes."""
    table = cluster.cache.table
    slots = [cluster.cache.nodes[name].slot for name in cluster.cache.nodes]

    def fits(left: tuple[Any, ...], simulation: Simulation) -> bool:
        if not left:
            return True
        seen = set()
        for index, pod in enumerate(left):
            if pod.name[0] in seen:
                continue
            seen.add(pod.name[0])
            for slot in slots:
                before, placed = simulation.transaction.checkpoint(), simulation.placed
                simulation.within = np.arange(table.size) == slot
                found = isinstance(simulation.schedule(pod), Placement)
                if found and fits((*left[:index], *left[index + 1 :]), simulation):
                    return True
                simulation.undo(before, placed, "")
        return False

    with CacheTransaction(cluster.cache) as transaction:
        return fits(
            tuple(cluster.members), Simulation(framework=cluster.framework, transaction=transaction, below=lambda _n: 0)
        )


def generated(seed: int) -> MixedCluster:
    choose = random.Random(seed)
    nodes = [room(f"n{i}", choose.randint(1, 5), choose.choice("xy")) for i in range(choose.randint(2, 4))]
    placed = [
        one(f"p{i}", f"n{choose.randrange(len(nodes))}", labels={"kind": choose.choice("ab")})
        for i in range(choose.randint(0, 2))
    ]
    members: list[tuple[str, int, dict[str, Any]]] = []
    for name in "abc"[: choose.randint(1, 3)]:
        key, other = choose.choice((HOST, ZONE)), choose.choice("abc")
        spec = choose.choice(({}, near(other, key), near(other, key, anti=True), even(other, key), even(name, key)))
        members += [(name, choose.randint(1, 3), spec)] * choose.randint(1, 2)
    return MixedCluster(nodes, members, placed=placed)


def test_members_with_odd_numbers_of_bytes_that_fit_exactly_are_placed():
    """Milli-CPUs and bytes by node. In bytes, a solver's tolerance made it prove that there is no placement."""
    on_nodes = [
        [(3384, 183855769675), (4790, 405584735308), (2295, 488196910011), (3962, 800275009254)],
        [(3569, 911225886672)],
        [(1962, 650843408171), (1763, 583485303156), (2724, 294474345321)],
        [(3011, 284286688165)],
        [(3373, 448593124624), (4807, 313863202143), (3260, 582745673025), (2117, 763753843334)],
    ]
    nodes = [
        make_node(f"n{i}", allocatable={"cpu": f"{sum(cpus)}m", "memory": str(sum(sizes))})
        for i, (cpus, sizes) in enumerate(zip(*each, strict=True) for each in on_nodes)
    ]
    members = [(3, 0), (1, 0), (0, 3), (2, 2), (0, 2), (4, 0), (4, 2), (4, 3), (2, 0), (0, 1), (0, 0), (2, 1), (4, 1)]
    amounts = [on_nodes[node][number] for node, number in members]
    requests = [{"requests": {"cpu": f"{cpu}m", "memory": str(size)}} for cpu, size in amounts]
    specs = [{"containers": [{"name": "c", "resources": each}]} for each in requests]
    assert len(nodes_of(jointly(MixedCluster(nodes, [("m", 0, spec) for spec in specs])))) == len(members)


@pytest.mark.parametrize("most", [3, 1 << 20, 1 << 50, 1 << 62])
def test_amounts_in_units_lose_no_solution(most):
    choose = random.Random(most)
    for _ in range(CASES):
        amounts = [choose.randint(-most, most) for _ in range(5)]
        values = [choose.randint(0, 9) for _ in amounts]
        rows = Rows()
        rows.holds(rows.variables([9] * 5), sum(map(mul, amounts, values)), amounts)
        built = rows.program()
        assert built.values @ values <= built.high[0]
        assert abs(built.values).max() <= min(most, LARGEST)


def test_what_is_placed_fits_and_what_is_proved_does_not():
    ends: Counter[str] = Counter()
    for seed in range(CASES):
        cluster = generated(seed)
        decision = jointly(cluster)
        exists = some_order_fits(cluster)
        if isinstance(decision, GangPlacement):
            assert exists, seed
            ends["placed"] += 1
        elif exists:
            assert COUNTED not in decision.message, seed
            assert PROVED not in decision.message, seed
            ends["missed"] += 1
        else:
            ends["proved" if PROVED in decision.message or COUNTED in decision.message else "open"] += 1
    print(ends)
    assert ends["missed"] <= CASES // 20, ends
