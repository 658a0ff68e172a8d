"""Scenarios in YAML: a cluster, policies and events, and on which node each pod must run or why it must stay pending.

The `steps` of a file run in order: `nodes`, `pods`, `policies`, `queues`, `namespaces` add or replace objects, `delete`
names pods or nodes, and `wait` advances the fake clock by seconds. After each step, every pod in the active queue is
scheduled by the whole core. Then `expect` maps a pod to its node, a list of possible nodes, or `pending: <part of the
message>`, and `policy NAME` to `accepted` or `refused: <part of the message>`.
"""

from pathlib import Path

import pytest
import yaml

from podwright.api.policy_set import PolicySet
from podwright.api.scheduling_queue import parse_queue
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent
from podwright.core.framework.framework import Framework
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queue import SchedulingQueue
from podwright.core.queues.queues import queues_of
from podwright.simulator.world import World

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


class Scenario:
    def __init__(self):
        self.now = 1_000_000.0
        self.world = World(clock=lambda: self.now)
        self.cache = self.world.cache
        self.policies = PolicySet(PLUGINS, self.world.features)
        self.frameworks = {}
        self.queue = SchedulingQueue(
            lambda: self.now,
            sort_key=lambda pod, at: self.framework(pod).sort_key(pod, at),
            pre_enqueue=lambda pod: self.framework(pod).pre_enqueue(pod),
            hints_of=lambda pod: self.framework(pod).hints,
        )
        self.queues = queues_of(self.cache)
        self.pods = {}
        self.outcome = {}

    def framework(self, pod):
        policy = self.policies.select(pod, self.cache.namespace_labels(pod.namespace))
        assert policy is not None, f"no policy serves {pod.scheduler_name}"
        if policy not in self.frameworks:
            self.frameworks[policy] = Framework(policy.profile, PLUGINS, self.world)
        return self.frameworks[policy]

    def run(self, step):
        for raw in step.get("policies") or ():
            outcome = self.policies.apply({"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", **raw})
            self.outcome[f"policy {raw['metadata']['name']}"] = (
                "accepted" if outcome.accepted else f"refused: {outcome.message}"
            )
            self.queue.activate_all()
        for raw in step.get("queues") or ():
            self.queues.set(parse_queue({"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulingQueue", **raw}))
        for raw in step.get("namespaces") or ():
            self.cache.set_object("Namespace", raw)
        for raw in step.get("nodes") or ():
            self.cache.set_node(parse_node(raw))
            self.queue.move(ClusterEvent(NODE, Action.ADD | Action.UPDATE))
        for name in step.get("delete") or ():
            self.delete(name)
        for raw in step.get("pods") or ():
            self.add(raw)
        self.now += step.get("wait", 0)
        self.schedule_all()

    def add(self, raw):
        raw = {**raw, "spec": {"schedulerName": "podwright", "containers": [{"name": "c"}], **(raw.get("spec") or {})}}
        raw["metadata"] = {"namespace": "default", **raw["metadata"], "uid": raw["metadata"]["name"]}
        pod = parse_pod(raw, keep_raw=True)
        self.pods[pod.name] = pod
        if pod.node_name:
            self.cache.set_pod(pod)
            self.outcome[pod.name] = pod.node_name
        else:
            self.queues.add_waiting(pod)
            self.queue.add(pod)

    def delete(self, name):
        if name in self.cache.nodes:
            self.cache.remove_node(name)
            return
        pod = self.pods.pop(name)
        placement = self.cache.placement(pod.uid)
        pod = pod.on(placement.name if placement else "")
        self.queue.delete(pod.uid)
        self.queues.remove_waiting(pod.uid)
        self.cache.remove_pod(pod.uid)
        self.outcome[name] = "deleted"
        self.queue.move(ClusterEvent(ASSIGNED_POD, Action.DELETE), pod)

    def schedule_all(self):
        for _ in range(1000):
            queued = self.queue.pop()
            if queued is None:
                return
            self.attempt(queued)
        pytest.fail("the queue is never empty")

    def attempt(self, queued):
        pod = queued.pod
        decision = schedule(self.framework(pod), self.cache, pod, lambda n: n - 1)
        if isinstance(decision, Placement):
            self.cache.assume(pod, decision.node_name)
            self.cache.nominator.remove(pod.uid)
            self.queue.done(pod.uid)
            self.outcome[pod.name] = decision.node_name
            return
        self.outcome[pod.name] = f"pending: {decision.message}"
        if not isinstance(decision, Rejection):
            self.queue.fault(queued)
            return
        self.queue.reject(queued, decision.status_plugins)
        if decision.nominated_node:
            self.cache.nominator.add(pod, decision.nominated_node)
        for victim in decision.victims:
            self.delete(victim.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem.replace("-", " "))
def test_scenario(path):
    scenario = Scenario()
    steps = yaml.safe_load(path.read_text())["steps"]
    assert any("expect" in step for step in steps)
    for number, step in enumerate(steps):
        scenario.run(step)
        for name, expected in (step.get("expect") or {}).items():
            found = scenario.outcome.get(name)
            context = f"step {number}: {name} is {found!r}, expected {expected!r}"
            if isinstance(expected, dict):
                ((kind, text),) = expected.items()
                assert str(found).startswith(f"{kind}: "), context
                assert text in found, context
            else:
                assert found in (expected if isinstance(expected, list) else [expected]), context
