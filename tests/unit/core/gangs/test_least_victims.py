"""The fewest and least important victims of a gang, by the program. Never more than what preemption finds without
it.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from podwright.core.framework.program import Answer
from podwright.core.gangs import joint_program, least_victims
from podwright.core.gangs.decisions import GangPlacement, GangPreemption
from podwright.core.gangs.evictions import cost_of
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import WORKLOAD_API, group_key
from podwright.core.preemption.budgets import KIND, BudgetRules
from podwright.core.preemption.units import ABOVE_ALL, importance, split_by_budget, units_below
from podwright.core.state.deadline import TookLongError
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.process.slice import LOOP_SECONDS, Slice
from support.gangs.highs import by_highs
from support.gangs.kit import HOST, NOW, ZONE, FullCluster, budget, group_of, one, room
from support.gangs.members import MixedCluster, near
from support.objects.builders import make_pod
from support.properties import examples
from support.queues.reclaims import QueuedCluster, queue

CASES = examples(60)


def sized(name: str, node: str, cpu: int, priority: int = 0, **options: Any) -> dict[str, Any]:
    """A running pod of so many CPUs."""
    return make_pod(name, node=node, priority=priority, requests={"cpu": str(cpu)}, **options)


def preempted(cluster: FullCluster, solve: Any = by_highs) -> GangPreemption | None:
    before = cluster.cache.table.requested("cpu").copy()
    decision = decide(replace(cluster.planner, solve=solve), cluster.members, NOW)
    assert (cluster.cache.table.requested("cpu") == before).all(), "the cache is as it was"
    return None if isinstance(decision, GangPlacement) else decision.preemption


def victims(cluster: FullCluster, solve: Any = by_highs) -> list[str]:
    found = preempted(cluster, solve)
    return sorted(victim.name for victim in found.victims) if found else []


def scattered() -> FullCluster:
    """A member fits where one large pod leaves, or four small ones. Scores prefer the node with the small ones."""
    placed = [sized("large", "a", 4), *(one(f"small{i}", "b") for i in range(4))]
    return FullCluster([room("a", 4), room("b", 5)], placed, member={"requests": {"cpu": "4"}})


class TestFewer:
    def test_one_large_pod_leaves_instead_of_several_small_ones(self):
        assert victims(scattered(), None) == ["small1", "small2", "small3"]
        assert victims(scattered()) == ["large"]

    def test_the_most_important_victim_counts_before_the_number(self):
        placed = [sized("large", "a", 4, 2), *(one(f"small{i}", "b", 1) for i in range(4))]
        cluster = FullCluster([room("a", 9), room("b", 4)], [*placed, sized("x", "a", 5, 100)])
        cluster = FullCluster([room("a", 4), room("b", 4)], placed, member={"requests": {"cpu": "4"}})
        assert victims(cluster) == ["small0", "small1", "small2", "small3"]

    def test_of_equal_pods_those_that_started_last_leave(self):
        placed = [one(f"p{i}", "a", start=f"2023-01-0{i + 1}T00:00:00Z") for i in range(4)]
        assert victims(FullCluster([room("a", 4), room("b", 0)], placed, members=2)) == ["p2", "p3"]
        assert victims(FullCluster([room("a", 4), room("b", 0)], placed)) == ["p3"]

    def test_no_program_is_solved_if_as_few_leave_as_must_by_counting(self):
        placed = [one(f"{node}{i}", node) for node in "abc" for i in range(4)]
        cluster = FullCluster([room(node, 5) for node in "abc"], placed, members=2, member={"requests": {"cpu": "4"}})
        assert len(victims(cluster, lambda _program, _seconds: pytest.fail("a program is solved"))) == 6

    def test_pods_that_terminate_for_others_are_no_reason_to_solve_a_program(self):
        leaving = {"metadata": {"deletionTimestamp": "2023-01-01T00:00:00Z"}}
        placed = [one(f"a{i}", "a", **leaving) for i in range(4)] + [one(f"b{i}", "b") for i in range(4)]
        cluster = FullCluster([room("a", 5), room("b", 5)], placed, member={"requests": {"cpu": "4"}})
        cluster.cache.nominator.add(parse_pod(make_pod("other", requests={"cpu": "4"}, priority=100)), "a")
        assert victims(cluster, lambda _program, _seconds: pytest.fail("a program is solved")) == ["b1", "b2", "b3"]

    def test_a_whole_gang_counts_with_all_its_pods(self):
        placed = [
            one("g1", "a", group="g"),
            one("g2", "b", group="g"),
            one("g3", "b", group="g"),
            sized("s", "c", 1, 0),
        ]
        placed += [one("t", "c")]
        cluster = FullCluster(
            [room("a", 1), room("b", 2), room("c", 2)],
            placed,
            members=2,
            groups=[group_of("g", 0, whole=True)],
        )
        assert victims(cluster) == ["s", "t"]

    def test_no_budget_is_violated_where_another_way_is_left(self):
        placed = [sized("guarded", "a", 4, labels={"app": "db"}), *(one(f"p{i}", "b", 5) for i in range(4))]
        cluster = FullCluster(
            [room("a", 4), room("b", 4)],
            placed,
            member={"requests": {"cpu": "4"}},
            budgets=[budget("db", 0, {"app": "db"})],
        )
        assert victims(cluster) == ["p0", "p1", "p2", "p3"]

    def test_members_that_fit_only_together_preempt(self):
        """One after the other, the small member takes the large node."""
        placed = [one("p", "small"), one("q", "large")]
        cluster = MixedCluster([room("large", 8), room("small", 3)], [("s", 3, {}), ("l", 8, {})], placed=placed)
        assert victims(cluster, None) == []
        assert victims(cluster) == ["p", "q"]

    def test_all_domains_are_looked_at_together(self):
        nodes = [room(f"{zone}{i}", 2, zone) for zone in "xyz" for i in range(2)]
        placed = [one(f"{name}-{i}", name) for name in ("x0", "x1", "z0", "z1") for i in range(2)]
        placed += [sized("y-0", "y0", 2), one("y-1", "y1")]
        topology = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        cluster = FullCluster(nodes, placed, members=3, group=topology)
        assert victims(cluster) == ["y-0"]

    def test_a_pod_that_repels_members_leaves_although_the_program_does_not_count_it(self):
        placed = [one("p0", "a"), one("p1", "a", labels={"kind": "other"})]
        placed += [sized("full", "b", 2, 100)]
        spec = near("other", HOST, anti=True)
        cluster = FullCluster([room("a", 3), room("b", 2)], placed, member={"spec": spec, "requests": {"cpu": "2"}})
        assert victims(cluster) == ["p1"]


class TestFallBack:
    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(Answer(problem="the solver ended with -9"), id="the process dies"),
            pytest.param(Answer(problem="the solver hung for 3 s and was ended"), id="the process hangs"),
            pytest.param(Answer(proved=True), id="it says that there is nothing"),
        ],
    )
    def test_what_was_found_without_a_solver_counts(self, answer):
        assert victims(scattered(), lambda *_: answer) == victims(scattered(), None)

    def test_a_program_that_is_too_large_is_not_made(self, monkeypatch):
        monkeypatch.setattr(joint_program, "MAX_CELLS", 1)
        assert victims(scattered(), lambda *_: pytest.fail("too large")) == victims(scattered(), None)

    def test_nothing_is_solved_where_nothing_can_be_better(self):
        cluster = FullCluster([room("a", 2)], [one("low", "a"), one("mid", "a", 5)])
        assert victims(cluster, lambda *_: pytest.fail("one pod of the lowest priority")) == ["low"]

    def test_it_is_left_to_a_child_at_once(self):
        cluster = scattered()
        Slice(cluster.cache, clock=lambda: 0.0, cpu=lambda: 0.0).run(lambda: None)
        deadline = cluster.cache.deadline
        deadline.check = lambda: None
        with pytest.raises(TookLongError):
            victims(cluster, lambda *_: pytest.fail("in the loop"))
        Slice(cluster.cache, clock=lambda: 0.0, cpu=lambda: 0.0).run(lambda: None, LOOP_SECONDS)
        deadline.check = lambda: None
        assert len(victims(cluster, lambda *_: pytest.fail("in the loop"))) == 3

    def test_a_worse_answer_does_not_count(self):
        def everything(program, _seconds):
            return Answer(program.most.astype(np.int64))

        placed = [sized("large", "a", 4, 5), *(one(f"small{i}", "b") for i in range(4))]
        cluster = FullCluster([room("a", 4), room("b", 5)], placed, member={"requests": {"cpu": "4"}})
        assert victims(cluster, everything) == victims(cluster, None) == ["small1", "small2", "small3"]

    def test_of_an_answer_with_too_many_victims_those_return_that_may(self):
        assert victims(scattered(), lambda program, _: Answer(program.most.astype(np.int64))) == ["large"]


def cost(cluster: FullCluster, names: list[PodInfo], placed: int) -> tuple[int, ...]:
    units = units_below(ABOVE_ALL, names, cluster.cache)
    units.sort(key=importance(NOW))
    budgets = BudgetRules(cluster.cache.store.list(KIND))
    violations = sum(count for _, count in split_by_budget(units, budgets)[0])
    return (-placed, *cost_of(units, lambda unit: (unit.priority,), violations))


def generated(seed: int) -> FullCluster:
    choose = random.Random(seed)
    nodes = [room(f"n{i}", choose.randint(2, 5), f"z{i % 2}") for i in range(choose.randint(2, 3))]
    placed: list[dict[str, Any]] = []
    for node in nodes:
        left = int(node["status"]["allocatable"]["cpu"])
        while left and len(placed) < 9:
            cpu = choose.randint(1, min(3, left))
            labels = {"app": choose.choice("ab")}
            spec = {"schedulingGroup": {"podGroupName": "whole"}} if choose.random() < 0.2 else {}
            name = f"p{len(placed)}"
            placed.append(sized(name, node["metadata"]["name"], cpu, choose.randint(0, 3), labels=labels, spec=spec))
            left -= cpu if choose.random() < 0.9 else left
    topology = {"schedulingConstraints": {"topology": [{"key": ZONE}]}} if choose.random() < 0.3 else {}
    members = choose.randint(1, 3)
    return FullCluster(
        nodes,
        placed,
        members=members,
        min_count=members,
        member={"requests": {"cpu": str(choose.randint(1, 3))}},
        group=topology,
        groups=[group_of("whole", None, whole=True)],
        budgets=[budget("a", choose.randint(0, 2), {"app": "a"})] if choose.random() < 0.5 else [],
    )


def least(cluster: FullCluster) -> tuple[int, ...] | None:
    """The least cost of all sets of units without which the gang is placed."""
    pods = [pod for info in cluster.cache.nodes.values() for pod in info.pods.values()]
    units = units_below(100, pods, cluster.cache)
    best: tuple[int, ...] | None = None
    for chosen in itertools.product((False, True), repeat=len(units)):
        gone = [pod for unit, leaves in zip(units, chosen, strict=True) if leaves for pod in unit.pods]
        found = cost(cluster, gone, len(cluster.members))
        if best is not None and found >= best:
            continue
        with CacheTransaction(cluster.cache) as transaction:
            transaction.remove(gone)
            if isinstance(cluster.planner.plan(cluster.members), GangPlacement):
                best = found
    return best


@pytest.mark.parametrize("seed", range(CASES))
def test_of_generated_gangs_none_has_more_victims_than_it_needs(seed):
    without, cluster = preempted(generated(seed), None), generated(seed)
    found, expected = preempted(cluster), least(cluster)
    if expected is None or found is None:
        assert found is without is expected is None or isinstance(cluster.planner.plan(cluster.members), GangPlacement)
        return
    assert cost(cluster, [*found.victims], len(found.nominations)) == expected
    assert without is None or expected <= cost(cluster, [*without.victims], len(without.nominations))


class TestQueues:
    def solved(self, cluster: QueuedCluster, name: str, solve: Any = by_highs) -> list[str]:
        group = cluster.cache.groups.get(group_key(WORKLOAD_API, "default", name))
        pods = cluster.cache.groups.members(group.key).unplaced()
        planner = GangPlanner(cluster.framework, cluster.cache, group, lambda _n: 0, solve=solve)
        preemption = getattr(decide(planner, pods, cluster.now), "preemption", None)
        return sorted(victim.name for victim in preemption.victims) if preemption else []

    def test_a_queue_keeps_its_share_whatever_the_program_would_like(self):
        cluster = QueuedCluster([4, 4], [queue("a"), queue("b")])
        for i in range(8):
            cluster.runs(f"b{i}", "b", f"n{i % 2}", priority=1000)
        cluster.waits("b-more", "b")
        assert len(self.solved(cluster, cluster.gang("four", "a", 4))) == 4
        assert self.solved(cluster, cluster.gang("five", "a", 5)) == []

    def test_one_large_pod_leaves_instead_of_several_small_ones(self):
        cluster = QueuedCluster([4, 4], [queue("a"), queue("b")])
        cluster.runs("large", "b", "n0", 4, since=7200)
        for i in range(4):
            cluster.runs(f"b{i}", "b", "n1")
        cluster.waits("b-more", "b")
        assert self.solved(cluster, cluster.gang("gang", "a", 1, gpus=4)) == ["large"]


class TestManyUnits:
    """Not all nodes can be looked at."""

    def test_those_are_where_the_fewest_leave(self, monkeypatch):
        monkeypatch.setattr(least_victims, "MOST_UNITS", 8)
        placed = [one(f"p{node}-{i}", f"n{node}") for node in range(8) for i in range(4)]
        placed += [sized("large", "n8", 4), sized("higher", "n9", 4, 5)]
        cluster = FullCluster([room(f"n{i}", 4) for i in range(10)], placed, member={"requests": {"cpu": "4"}})
        sizes = []

        def solve(program, seconds):
            sizes.append(len(program.most))
            return by_highs(program, seconds)

        assert victims(cluster, solve) == ["large"]
        assert max(sizes) < 20

    def test_domains_where_few_leave_come_first(self, monkeypatch):
        monkeypatch.setattr(least_victims, "MOST_UNITS", 12)
        nodes = [room(f"{zone}{i}", 4, zone) for zone in "xyz" for i in range(2)]
        placed = [one(f"{name}-{i}", name) for name in ("x0", "x1", "z0", "z1") for i in range(4)]
        placed += [sized("y-0", "y0", 4), sized("y-1", "y1", 4)]
        topology = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        cluster = FullCluster(nodes, placed, members=2, group=topology, member={"requests": {"cpu": "4"}})
        assert len(victims(cluster, None)) == 8
        assert victims(cluster) == ["y-0", "y-1"]

    def test_less_important_units_are_looked_at_before_the_others(self):
        """Without those of priority 0 all members fit by counting, but not together."""
        placed = [sized("a", "n0", 9), sized("b", "n1", 9), sized("c", "n2", 5, 3)]
        members = [("s", 1, {}), ("l", 5, {}), ("l", 5, {}), ("xl", 6, {})]
        cluster = MixedCluster([room("n0", 9), room("n1", 9), room("n2", 5)], members, placed=placed)
        solved = []

        def solve(program, seconds):
            solved.append(len(program.most))
            return by_highs(program, seconds)

        assert victims(cluster, None) == []
        assert victims(cluster, solve) == ["a", "b", "c"]
        assert len(solved) == 2
        assert solved[0] < solved[1]
