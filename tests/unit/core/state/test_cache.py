"""The cache compared with a model that only records which pod is on which node."""

import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from support.objects.builders import make_namespace, make_node, make_pod
from support.properties import examples
from support.state.placement_recorder import PlacementRecorder

NODES = st.sampled_from(["a", "b", "c"])
CPUS = st.sampled_from(["100m", "250m", "2"])


class CacheMachine(RuleBasedStateMachine):
    pods = Bundle("pods")

    def __init__(self):
        super().__init__()
        self.cache = Cache()
        self.recorder = PlacementRecorder()
        self.cache.attach(self.recorder)
        self.nodes = set()
        self.placed = {}
        self.count = 0

    def pod(self, cpu, node="", phase="Running"):
        self.count += 1
        return parse_pod(make_pod(f"p{self.count}", requests={"cpu": cpu}, node=node, status={"phase": phase}))

    @rule(name=NODES, cpu=CPUS)
    def set_node(self, name, cpu):
        self.cache.set_node(parse_node(make_node(name, allocatable={"cpu": cpu})))
        self.nodes.add(name)

    @rule(name=NODES)
    def remove_node(self, name):
        self.cache.remove_node(name)
        self.nodes.discard(name)

    @rule(target=pods, node=NODES, cpu=CPUS)
    def assume(self, node, cpu):
        pod = self.pod(cpu)
        self.cache.assume(pod, node)
        assert self.cache.is_assumed(pod.uid)
        self.placed[pod.uid] = (node, pod)
        return pod

    @rule(target=pods, node=NODES, cpu=CPUS)
    def another_scheduler_binds(self, node, cpu):
        pod = self.pod(cpu, node)
        self.cache.set_pod(pod)
        self.placed[pod.uid] = (node, pod)
        return pod

    @rule(pod=pods, node=NODES, cpu=CPUS)
    def the_watch_reports_it(self, pod, node, cpu):
        """On the node it was assumed on, or on another, possibly resized."""
        seen = parse_pod(make_pod(pod.name, requests={"cpu": cpu}, node=node))
        self.cache.set_pod(seen)
        assert not self.cache.is_assumed(pod.uid)
        self.placed[pod.uid] = (node, seen)

    @rule(pod=pods, priority=st.integers(0, 2))
    def replace(self, pod, priority):
        if pod.uid in self.placed:
            node, known = self.placed[pod.uid]
            assumed, changed = self.cache.is_assumed(pod.uid), dataclasses.replace(known, priority=priority)
            self.cache.replace_pod(changed)
            assert self.cache.is_assumed(pod.uid) is assumed
            self.placed[pod.uid] = node, changed

    @rule(pod=consumes(pods))
    def forget(self, pod):
        if self.cache.is_assumed(pod.uid):
            self.cache.forget(pod.uid)
            self.placed.pop(pod.uid)
        else:
            with pytest.raises(ValueError, match="not assumed"):
                self.cache.forget(pod.uid)

    @rule(pod=consumes(pods))
    def remove(self, pod):
        self.cache.remove_pod(pod.uid)
        self.placed.pop(pod.uid, None)

    @rule(pod=pods, phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, pod, phase):
        self.cache.set_pod(parse_pod(make_pod(pod.name, node="a", status={"phase": phase})))
        self.placed.pop(pod.uid, None)

    @rule(pod=pods, node=NODES)
    def a_placed_pod_cannot_be_assumed_again(self, pod, node):
        if pod.uid in self.placed:
            with pytest.raises(ValueError, match="already"):
                self.cache.assume(pod, node)

    @invariant()
    def sums_match_the_pods(self):
        cache, table = self.cache, self.cache.table
        assert cache.pod_count == len(self.placed)
        assert table.count == len(self.nodes)
        assert {table.names[slot] for slot in range(table.size) if table.valid[slot]} == self.nodes
        for name in self.nodes:
            info = cache.nodes[name]
            mine = [pod for node, pod in self.placed.values() if node == name]
            cpu = sum(pod.requests.amounts["cpu"] for pod in mine)
            assert set(info.pods) == {pod.uid for pod in mine}
            assert info.requested.get("cpu", 0) == cpu == table.requested("cpu")[info.slot]
            assert table.pods[info.slot] == len(mine)
            assert table.scoring_cpu[info.slot] == info.scoring_cpu == sum(p.requests.scoring_cpu for p in mine)
            assert table.allocatable("cpu")[info.slot] == info.node.allocatable["cpu"]
            assert cache.node_at(info.slot) is info
        here = {uid: cache.nodes[node].slot for uid, (node, _) in self.placed.items() if node in self.nodes}
        assert self.recorder.pods == here
        assert set(self.recorder.nodes.values()) == self.nodes

    @invariant()
    def removed_nodes_without_pods_are_dropped(self):
        assert set(self.cache.nodes) == self.nodes | {node for node, _ in self.placed.values()}


CacheMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestCacheMachine = CacheMachine.TestCase


def test_namespace_labels_follow_their_namespace():
    cache = Cache()
    assert cache.namespace_labels("team") == {}
    cache.set_object("Namespace", make_namespace("team", {"tier": "gold"}))
    assert cache.namespace_labels("team") == {"tier": "gold"}
    cache.remove_object("Namespace", "team")
    assert cache.namespace_labels("team") == {}
