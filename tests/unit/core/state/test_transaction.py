"""Random changes with nested checkpoints: a rollback always restores the copy that was made at the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import KIND
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import in_group, make_node, make_pod, make_pod_group
from support.plugins.kit import make_cache
from support.properties import examples
from support.state.placement_recorder import PlacementRecorder

NODES = ("a", "b", "c")
GROUPS = ("", "g", "h")
node_names = st.sampled_from(NODES)
groups = st.sampled_from(GROUPS)
requests = st.sampled_from([{"cpu": "100m"}, {"cpu": "2", "memory": "1Gi"}, {"example.com/gpu": "1"}])
ports = st.sampled_from([{}, {}, {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}])


def copy_of(cache: Cache, recorder: PlacementRecorder) -> dict[str, Any]:
    """Everything that can be read from the cache, in order. PodInfos are compared by identity."""
    table, nominator = cache.table, cache.nominator
    return {
        "nodes": [
            (
                name,
                [(uid, id(pod), cache.is_assumed(uid)) for uid, pod in info.pods.items()],
                {resource: amount for resource, amount in info.requested.items() if amount},
                (info.scoring_cpu, info.scoring_memory, bool(info.ports)),
            )
            for name, info in cache.nodes.items()
        ],
        "columns": [table.requested(resource).tolist() for resource in ("cpu", "memory", "example.com/gpu")]
        + [table.pods.tolist(), table.scoring_cpu.tolist(), table.scoring_memory.tolist()],
        "placements": {uid: info.name for uid in recorder.pods if (info := cache.placement(uid)) is not None},
        "count": cache.pod_count,
        "observed": recorder.pods.copy(),
        "groups": [
            (group.key, [(uid, id(pod)) for uid, pod in members.placed.items()], members.assumed, members.total)
            for group in cache.groups.all()
            for members in (cache.groups.members(group.key),)
        ],
        "partially placed": [group.key for group in cache.groups.partially_placed],
        "nominations": [(name, [id(pod) for pod in nominator.on(name)]) for name in nominator.nodes()],
        "nominated": len(nominator),
    }


class Transactions(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.cache = Cache()
        self.recorder = PlacementRecorder()
        self.cache.attach(self.recorder)
        for name in NODES:
            self.cache.set_node(parse_node(make_node(name)))
        for name in ("g", "h"):
            self.cache.set_object(KIND, make_pod_group(name, 3))
        self.count = 0
        self.open: list[tuple[CacheTransaction, list[tuple[Any, dict[str, Any], list[int]]]]] = []
        """Nested transactions, each with its checkpoints: (checkpoint, the copy made then, callbacks not yet undone).
        """
        self.callbacks: list[int] = []

    def pod(self, group: str, wanted: dict[str, str], spec: dict[str, Any], node: str = "") -> PodInfo:
        self.count += 1
        spec = {**spec, **(in_group(group) if group else {})}
        return parse_pod(make_pod(f"p{self.count}", requests=wanted, node=node, spec=spec), keep_raw=True)

    def copy(self) -> dict[str, Any]:
        return copy_of(self.cache, self.recorder)

    # Outside of transactions

    @precondition(lambda self: not self.open)
    @rule(group=groups, wanted=requests, spec=ports, node=node_names)
    def a_pod_is_bound(self, group, wanted, spec, node):
        self.cache.set_pod(self.pod(group, wanted, spec, node))

    @precondition(lambda self: not self.open)
    @rule(node=node_names, data=st.data())
    def a_pod_changes_but_counts_the_same(self, node, data):
        """The node has a newer version of the pod than its group."""
        pods = list(self.cache.nodes[node].pods.values())
        if pods:
            pod = data.draw(st.sampled_from([pod for pod in pods if pod.raw]))
            raw = {**pod.raw, "spec": {**pod.raw["spec"], "nodeName": node}}
            self.cache.set_pod(parse_pod(raw, keep_raw=True))

    @precondition(lambda self: not self.open)
    @rule(group=groups, wanted=requests, spec=ports, node=node_names, nominated=st.booleans())
    def a_pending_pod_appears(self, group, wanted, spec, node, nominated):
        pod = self.pod(group, wanted, spec)
        self.cache.groups.add_waiting(pod)
        if nominated:
            self.cache.nominator.add(pod, node)
        else:
            self.cache.assume(pod, node)

    # Changes

    @rule()
    def begin(self):
        transaction = CacheTransaction(self.cache)
        self.open.append((transaction.__enter__(), [(transaction.checkpoint(), self.copy(), self.callbacks.copy())]))

    @property
    def transaction(self) -> CacheTransaction:
        return self.open[-1][0]

    @precondition(lambda self: self.open)
    @rule(group=groups, wanted=requests, spec=ports, node=node_names, refused=st.booleans())
    def assume(self, group, wanted, spec, node, refused):
        before = self.copy()
        pod = self.pod(group, wanted, spec)
        self.transaction.assume(pod, node)
        assert self.cache.is_assumed(pod.uid)
        if refused:
            self.transaction.forget(pod)
            pods_of = {key: value for key, value in self.copy().items() if key != "partially placed"}
            assert pods_of == {key: value for key, value in before.items() if key != "partially placed"}

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def remove(self, data):
        pods = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        chosen = data.draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.uid) if pods else st.just([]))
        self.transaction.remove(chosen)
        assert all(self.cache.placement(pod.uid) is None for pod in chosen)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def add_back(self, data):
        removed = sorted(self.transaction.removed)
        chosen = data.draw(st.lists(st.sampled_from(removed), unique=True) if removed else st.just([]))
        self.transaction.add_back(chosen)
        for uid in chosen:
            info = self.cache.placement(uid)
            assert info is not None
            assert info.name == self.transaction.removed_from(uid)

    @precondition(lambda self: self.open)
    @rule(node=node_names, data=st.data())
    def clear_nomination(self, node, data):
        nominated = list(self.cache.nominator.on(node))
        if nominated:
            self.transaction.clear_nomination(data.draw(st.sampled_from(nominated)).uid)

    @precondition(lambda self: self.open)
    @rule()
    def register_a_callback(self):
        self.count += 1
        number, then = self.count, self.copy()

        def undo() -> None:
            assert self.callbacks.pop() == number
            now = self.copy()
            assert {name: sorted(pods) for name, pods, *_ in now["nodes"]} == {
                name: sorted(pods) for name, pods, *_ in then["nodes"]
            }

        self.callbacks.append(number)
        self.transaction.on_rollback(undo)

    # Checkpoints

    @precondition(lambda self: self.open)
    @rule()
    def checkpoint(self):
        self.open[-1][1].append((self.transaction.checkpoint(), self.copy(), self.callbacks.copy()))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def roll_back(self, data):
        transaction, checkpoints = self.open[-1]
        index = data.draw(st.integers(0, len(checkpoints) - 1))
        checkpoint, copy, callbacks = checkpoints[index]
        transaction.rollback(checkpoint)
        assert self.copy() == copy
        assert self.callbacks == callbacks
        del checkpoints[index + 1 :]

    @precondition(lambda self: self.open)
    @rule()
    def end(self):
        transaction, checkpoints = self.open.pop()
        transaction.__exit__(None, None, None)
        assert self.copy() == checkpoints[0][1]
        assert self.callbacks == checkpoints[0][2]

    @invariant()
    def sums_are_those_of_the_pods(self):
        for info in self.cache.nodes.values():
            cpu = sum(pod.requests.amounts.get("cpu", 0) for pod in info.pods.values())
            assert info.requested.get("cpu", 0) == cpu == self.cache.table.requested("cpu")[info.slot]
            assert self.cache.table.pods[info.slot] == len(info.pods)

    def teardown(self):
        while self.open:
            self.end()


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


@pytest.fixture
def cache():
    placed = [make_pod(f"p{i}", node="a", requests={"cpu": "1"}) for i in range(3)]
    return make_cache([make_node("a"), make_node("b")], placed)


def pods_on(cache: Cache, name: str) -> list[PodInfo]:
    return list(cache.nodes[name].pods.values())


def test_leaving_the_block_rolls_back_after_an_exception(cache):
    before = pods_on(cache, "a")

    def fail() -> None:
        with CacheTransaction(cache) as transaction:
            transaction.remove(before[:2])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert pods_on(cache, "a") == before


def test_each_sum_of_a_node_is_written_once_for_all_of_its_pods(cache, monkeypatch):
    written = []
    monkeypatch.setattr(cache.table, "write_usage", lambda slot, resources: written.append((slot, list(resources))))
    slot = cache.nodes["a"].slot
    with CacheTransaction(cache) as transaction:
        transaction.remove(pods_on(cache, "a"))
        assert written == [(slot, ["cpu"])]
        transaction.add_back(["default/p1"])
        transaction.add_back(["default/p0"])
        del written[:]
    assert written == [(slot, ["cpu"])]
    assert cache.nodes["a"].requested["cpu"] == 3000


class TestMisuse:
    def test_a_pod_without_a_node_cannot_be_removed(self, cache):
        with CacheTransaction(cache) as transaction, pytest.raises(ValueError, match="on no node"):
            transaction.remove([parse_pod(make_pod("pending"))])

    def test_a_pod_of_a_node_that_does_not_exist_cannot_be_removed(self, cache):
        orphan = parse_pod(make_pod("orphan", node="gone"))
        cache.set_pod(orphan)
        with CacheTransaction(cache) as transaction, pytest.raises(ValueError, match="on no node"):
            transaction.remove([orphan])

    def test_only_a_removed_pod_can_be_added_back(self, cache):
        with CacheTransaction(cache) as transaction, pytest.raises(ValueError, match="was not removed"):
            transaction.add_back(["default/p0"])

    def test_a_removed_pod_cannot_be_assumed(self, cache):
        pod = pods_on(cache, "a")[0]
        with CacheTransaction(cache) as transaction:
            transaction.remove([pod])
            with pytest.raises(ValueError, match="must be added back"):
                transaction.assume(pod, "b")

    def test_only_the_last_assumed_pod_can_be_forgotten(self, cache):
        first, second = (parse_pod(make_pod(name)) for name in ("first", "second"))
        with CacheTransaction(cache) as transaction:
            transaction.assume(first, "a")
            transaction.assume(second, "a")
            with pytest.raises(ValueError, match="not the one that was assumed last"):
                transaction.forget(first)
