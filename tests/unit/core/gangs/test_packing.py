"""Pods that are packed together: as many as possible, the most important first, and what is proved about that."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count

import pytest

from podwright.core.cycle import Placement, Rejection
from podwright.core.framework import program
from podwright.core.framework.program import Answer
from podwright.core.gangs import joint, joint_program
from podwright.core.gangs.branches import Branch
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.gangs.joint_program import JointProgram
from podwright.core.gangs.packing import NO_SOLVER, NO_TIME, OTHERS_SECONDS, TOO_LARGE, Packing
from podwright.core.gangs.simulation import WORK_OF_A_TRIAL, Simulation
from podwright.core.objects.pod import parse_pod
from support.costs.call_counts import calls_of
from support.gangs.by_trial import by_trial
from support.gangs.highs import by_highs
from support.gangs.kit import HOST, NOW, FullCluster, budget, one, room
from support.gangs.members import near
from support.objects.builders import make_pod


class Cluster(FullCluster):
    """Nodes with room for so many CPUs, and no group."""

    def __init__(self, *cpus: int, placed=()):
        super().__init__([room(f"n{i}", cpu) for i, cpu in enumerate(cpus)], placed, members=0, min_count=1)

    def pack(self, *pods: tuple[int, int], solve=by_trial, spec=None, clock=lambda: 0.0, preempts_at=None):
        """Pods of so many CPUs, and of this priority."""
        parsed = [
            parse_pod(
                make_pod(f"p{i}", requests={"cpu": str(cpu)}, priority=priority, labels={"kind": "x"}, spec=spec),
                keep_raw=True,
            )
            for i, (cpu, priority) in enumerate(pods)
        ]
        before = self.cache.table.requested("cpu").copy()
        packed = Packing(self.framework, self.cache, lambda _n: 0, solve, 1.0, clock, preempts_at).pack(parsed)
        assert (self.cache.table.requested("cpu") == before).all()
        return packed


def placed(packed):
    return {each.pod.name: each.node_name for each in packed.decisions if isinstance(each, Placement)}


def nothing(*_):
    pytest.fail("there is nothing to solve")


def test_pods_that_fit_one_after_the_other_keep_the_nodes_with_the_best_scores():
    packed = Cluster(4, 4).pack((1, 0), (1, 0), solve=nothing)
    assert placed(packed) == {"p0": "n0", "p1": "n1"}
    assert packed.certificate == "Optimal"


def test_a_small_pod_leaves_room_for_a_large_one():
    packed = Cluster(4, 3).pack((3, 0), (4, 0), solve=nothing)
    assert placed(packed) == {"p0": "n1", "p1": "n0"}


def test_the_most_important_pods_come_first_however_large():
    packed = Cluster(4).pack((1, 0), (1, 0), (1, 0), (4, 5))
    assert placed(packed) == {"p3": "n0"}
    assert (packed.certificate, packed.placed) == ("Optimal", 1)
    assert {each.pod.name for each in packed.decisions if isinstance(each, Rejection)} == {"p0", "p1", "p2"}


@pytest.mark.parametrize("solve", [by_trial, None])
def test_of_equal_priority_more_pods_are_better(solve):
    assert set(placed(Cluster(4).pack((4, 0), (2, 0), (2, 0), solve=solve))) == {"p1", "p2"}


def test_what_no_order_finds_the_solver_does():
    """Of sizes 6, 5, 5, 4, 4, 3, 3 all fit on three nodes of 10 only as 6+4, 5+5, 4+3+3."""
    pods = [(size, 0) for size in (3, 3, 6, 5, 4, 5, 4)]
    assert len(placed(Cluster(10, 10, 10).pack(*pods, solve=None))) >= 6

    assert len(placed(Cluster(10, 10, 10).pack(*pods, solve=by_highs))) == 7


def test_filters_that_the_program_knows_count():
    packed = Cluster(4, 4).pack(*[(1, 0)] * 3, spec=near("x", HOST, anti=True))
    assert len(placed(packed)) == 2
    assert packed.certificate == "Optimal"


def test_without_a_solver_nothing_is_proved():
    packed = Cluster(4).pack((3, 0), (3, 0), solve=None)
    assert (packed.certificate, packed.message) == ("TimedOut", NO_SOLVER)
    assert packed.placed == 1


def test_a_solver_that_has_only_a_bound():
    packed = Cluster(4).pack((3, 0), (3, 0), solve=lambda *_: Answer(bounds=[7]))
    assert (packed.certificate, packed.more) == ("Bound", 1)
    assert packed.message == "at most 1 more pods of some priority could be placed"


def test_a_solution_that_filters_refuse_is_no_better():
    packed = Cluster(4).pack((3, 0), (3, 0), solve=lambda program, _: Answer(program.most.astype(int)))
    assert packed.placed == 1


def test_a_program_that_is_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(program, "MAX_ENTRIES", 1)
    packed = Cluster(4).pack((3, 0), (3, 0), solve=nothing)
    assert (packed.certificate, packed.message, packed.placed) == ("TimedOut", TOO_LARGE, 1)
    assert [type(each) for each in packed.decisions] == [Placement, Rejection]


def test_orders_count_although_the_program_is_too_large(monkeypatch):
    monkeypatch.setattr(program, "MAX_ENTRIES", 1)
    packed = Cluster(4).pack((4, 0), (2, 0), (2, 0), solve=nothing)
    assert (set(placed(packed)), packed.message) == ({"p1", "p2"}, TOO_LARGE)


def test_aims_of_many_priorities_are_too_large_as_well(monkeypatch):
    monkeypatch.setattr(program, "MAX_ENTRIES", 100)
    pods = [(2, priority) for priority in range(40)]
    assert Cluster(3).pack(*pods, solve=nothing).message == TOO_LARGE


@pytest.mark.parametrize("most", ["MAX_KINDS", "MAX_CELLS"])
def test_no_columns_are_made_of_too_many_kinds(monkeypatch, most):
    monkeypatch.setattr(joint_program, most, 2)
    monkeypatch.setattr(CapacityBounds, "per_node", nothing)
    assert Cluster(4).pack((1, 0), (2, 0), (3, 0), solve=nothing).message == TOO_LARGE


def test_passes_over_pods_that_wait_for_each_other_are_bounded(monkeypatch):
    """Each pod of a chain needs the next one beside it, so that each pass places one."""
    monkeypatch.setattr(joint, "MAX_WORK", 60 * WORK_OF_A_TRIAL)
    tried, schedule = [], Simulation.schedule
    monkeypatch.setattr(Simulation, "schedule", lambda *args: (tried.append(args), schedule(*args))[1])
    specs = [near(f"k{i + 1}", HOST) for i in range(39)] + [{}]
    pods = [
        parse_pod(make_pod(f"p{i}", labels={"kind": f"k{i}"}, spec=spec), keep_raw=True) for i, spec in enumerate(specs)
    ]
    cluster = Cluster(4)
    Packing(cluster.framework, cluster.cache, lambda _n: 0, None, 1.0, lambda: 0.0).pack(pods)
    assert len(tried) <= 3 * 40 + 2 * (60 + 40)


@pytest.mark.parametrize(
    ("spec", "times"),
    [
        pytest.param(near("x", HOST, anti=True), 4.5, id="for each two that repel each other"),
        pytest.param({}, 2.5, id="for each one that repels none"),
    ],
)
def test_kinds_cost_a_step(spec, times):
    cluster = Cluster(100, 100)

    def calls_for(kinds):
        requests = [{"cpu": str(1 + i)} for i in range(kinds)]
        pods = [
            parse_pod(make_pod(f"p{i}", requests=each, labels={"kind": "x"}, spec=spec), keep_raw=True)
            for i, each in enumerate(requests)
        ]
        return calls_of(lambda: JointProgram(cluster.framework, cluster.cache, Branch(0, untried=pods), 0).build())

    assert calls_for(80) < times * calls_for(40)


def test_pods_that_are_left_preempt_and_others_wait_for_that():
    cluster = Cluster(4, 4, placed=[one("low", "n0", 0), one("low2", "n1", 0)])
    packed = cluster.pack((4, 5), (4, 5))
    assert len(packed.decisions) == 1
    assert packed.decisions[0].victims


def test_of_many_pods_that_are_left_some_are_decided_later():
    """Each reading of the clock takes a quarter of the time."""
    clock = count(0, OTHERS_SECONDS / 4)
    packed = Cluster(4).pack((4, 5), *[(1, 0)] * 20, solve=None, clock=lambda: next(clock))
    assert [type(each) for each in packed.decisions] == [Placement, *[Rejection] * 4]


def test_the_budget_counts_from_the_first_pass_that_leaves_pods():
    """The search takes a tenth of it before the solver is asked, whose end takes a fifth of what is left."""
    asked, clock = [], iter((5.0, 5.02, 5.05, 5.1))
    solve = lambda _program, seconds: (asked.append(seconds), Answer())[1]
    Cluster(4).pack((3, 0), (3, 0), solve=solve, clock=lambda: next(clock, 6.0))
    assert asked == [pytest.approx(0.72)]


def test_no_solver_is_asked_after_the_budget():
    clock = iter((5.0, 5.9))
    packed = Cluster(4).pack((3, 0), (3, 0), solve=nothing, clock=lambda: next(clock, 6.0))
    assert (packed.certificate, packed.message, packed.placed) == ("TimedOut", NO_TIME, 1)


def test_for_a_single_pod_there_is_nothing_to_solve():
    packed = Cluster(4).pack((5, 0), solve=nothing)
    assert (packed.placed, packed.certificate) == (0, "Optimal")


def test_it_is_never_worse_than_one_after_the_other():
    better = Counter()
    for seed in range(25):
        choose = random.Random(seed)
        cpus = [choose.randint(2, 5) for _ in range(2)]
        pods = [(choose.randint(1, 4), choose.randint(0, 1)) for _ in range(4)]
        cluster = Cluster(*cpus)
        packed = cluster.pack(*pods)
        counts = Counter(each.pod.priority for each in packed.decisions if isinstance(each, Placement))
        alone = Counter()
        free = cpus.copy()
        for cpu, priority in sorted(pods, key=lambda pod: -pod[1]):
            at = max(range(2), key=lambda i: free[i])
            if free[at] >= cpu:
                free[at] -= cpu
                alone[priority] += 1
        assert (counts[1], counts[0]) >= (alone[1], alone[0]), seed
        assert packed.certificate == "Optimal", seed
        better[(counts[1], counts[0]) > (alone[1], alone[0])] += 1
    assert better[True] > 2


def evicted(packed):
    """Who is evicted for whom."""
    return {
        each.pod.name: sorted(victim.name for victim in each.victims)
        for each in packed.decisions
        if isinstance(each, Rejection) and each.nominated_node
    }


class TestEvictions:
    """Of pods that are packed together under a policy that lets others be evicted."""

    def test_the_least_important_leaves_and_as_few_as_possible(self):
        running = [one("low", "n0", 1), one("mid", "n0", 3), one("top", "n1", 9), one("low1", "n1", 1)]
        cluster = Cluster(2, 2, placed=running)
        packed = cluster.pack((1, 5), (1, 2), (1, 1), solve=by_highs, preempts_at=NOW)
        assert evicted(packed) in ({"p0": ["low"], "p1": ["low1"]}, {"p0": ["low1"], "p1": ["low"]})
        assert packed.placed == 2
        assert packed.certificate == "Optimal"
        assert packed.decisions[0].nominated_node in ("n0", "n1")

    def test_nobody_is_evicted_where_all_fit_or_no_more_would(self):
        assert not evicted(Cluster(4, placed=[one("low", "n0")]).pack((2, 5), (1, 5), solve=nothing, preempts_at=NOW))
        packed = Cluster(2, placed=[one("low", "n0", 1)]).pack((1, 5), (3, 5), solve=by_highs, preempts_at=NOW)
        assert (placed(packed), evicted(packed)) == ({"p0": "n0"}, {})

    def test_a_pod_takes_no_room_that_only_a_more_important_one_may_take(self):
        """Pod p1 of priority 2 would fit if p0 had `mid` evicted, which p0 does not need."""
        cluster = Cluster(2, 2, placed=[one("mid", "n0", 3), one("mid1", "n0", 3), one("low", "n1", 1)])
        packed = cluster.pack((1, 5), (2, 2), solve=by_highs, preempts_at=NOW)
        assert placed(packed) == {"p0": "n1"}
        assert evicted(packed) == {}

    def test_no_budget_is_violated(self):
        guarded = one("low", "n0", labels={"app": "db"})
        cluster = Cluster(1, placed=[guarded])
        cluster.cache.set_object("PodDisruptionBudget", budget("db", 0, {"app": "db"}))
        assert evicted(cluster.pack((1, 5), (1, 4), solve=by_highs, preempts_at=NOW)).get("p1") is None
        cluster.cache.set_object("PodDisruptionBudget", budget("db", 1, {"app": "db"}))
        assert evicted(cluster.pack((1, 5), (1, 4), solve=by_highs, preempts_at=NOW)) == {"p0": ["low"]}

    @staticmethod
    def guarded(*cpus):
        """The last node has a pod that nobody may evict."""
        cluster = Cluster(*cpus, placed=[one("low", f"n{len(cpus) - 1}", -1, labels={"app": "db"})])
        cluster.cache.set_object("PodDisruptionBudget", budget("db", 0, {"app": "db"}))
        return cluster

    def test_a_solution_that_evicts_nobody_counts(self):
        pods = [(size, 0) for size in (5, 7, 10, 7, 7, 6, 4, 6, 8)]
        assert self.guarded(20, 20, 20, 4).pack(*pods, solve=None).placed == 8
        packed = self.guarded(20, 20, 20, 4).pack(*pods, solve=by_highs, preempts_at=NOW)
        assert (packed.placed, len(placed(packed)), evicted(packed)) == (9, 9, {})

    def test_pods_that_are_left_get_no_room_that_is_taken(self):
        packed = self.guarded(4, 2).pack((4, 0), (2, 0), (2, 0), solve=by_highs, preempts_at=NOW)
        assert placed(packed) == {"p1": "n0", "p2": "n0"}

    @pytest.mark.parametrize("seed", range(20))
    def test_never_fewer_of_a_higher_priority_and_only_less_important_ones_leave(self, seed):
        choose = random.Random(seed)
        cpus = [choose.randint(3, 6) for _ in range(3)]
        running = [
            one(f"r{node}-{i}", f"n{node}", choose.randint(0, 4)) for node in range(3) for i in range(cpus[node] - 1)
        ]
        pods = [(choose.randint(1, 3), choose.randint(1, 5)) for _ in range(choose.randint(2, 5))]
        without = Cluster(*cpus, placed=running).pack(*pods, solve=by_highs)
        packed = Cluster(*cpus, placed=running).pack(*pods, solve=by_highs, preempts_at=NOW)
        order = sorted({priority for _, priority in pods}, reverse=True)

        def counts(names):
            return [sum(f"p{i}" in names and own == priority for i, (_, own) in enumerate(pods)) for priority in order]

        gained = evicted(packed)
        assert counts({*placed(packed), *gained}) >= counts(placed(without))
        for each in packed.decisions:
            if isinstance(each, Rejection) and each in packed.decisions[: packed.placed]:
                assert all(victim.priority < each.pod.priority for victim in each.victims)
        victims = {name for names in gained.values() for name in names}
        for node, cpu in enumerate(cpus):
            there = [each for each in packed.decisions if on_node(each) == f"n{node}"]
            left = sum(
                raw["spec"]["nodeName"] == f"n{node}" and raw["metadata"]["name"] not in victims for raw in running
            )
            assert left + sum(int(each.pod.requests.amounts["cpu"]) // 1000 for each in there) <= cpu


def on_node(decision):
    return decision.node_name if isinstance(decision, Placement) else decision.nominated_node
