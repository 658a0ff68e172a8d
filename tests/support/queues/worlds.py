"""A cluster with queues of teams that a generator changes step by step, and what must hold after each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.selectors import EVERYTHING, parse_label_selector
from podwright.core.queue.fair_pods import FairPods
from podwright.core.queue.queued_pod import QueuedPod
from podwright.core.queues.flavors import of_flavor, parts_of
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA, QueueTree, Quota
from podwright.core.queues.validity import valid_specs
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import make_node, make_pod
from support.objects.devices import claiming, exactly, make_claim

GPU = "nvidia.com/gpu"
TEAM_A = parse_label_selector({"matchLabels": {"team": "a"}}, "")
NAMES = ("a", "b", "c", "d", "e", "f")
MODEL = "gpu.example.com/model"
MODELS = ("x", "y")
"""Flavors, and the values of the label MODEL of their nodes."""
DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
CLAIMS = {"c1": 1, "c2": 2, "c3": 3}
"""Claims that pods share, and how many devices each requests."""


class QueuedWorld:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cache = Cache()
        self.queues = queues_of(self.cache)
        self.waiting: dict[str, PodInfo] = {}
        self.queues.pending = self.waiting.values
        self.active = FairPods(self.queues.turns)
        self.count = 0
        self.labels: dict[str, Mapping[str, str]] = {}
        """By uid: the labels with which pods got their node."""
        self.allowed: Counter[tuple[str, str]] = Counter()
        """By queue and resource: how much of it edits of queues have left above the limit."""
        self.make_claims()
        for number in range(3):
            self.set_node(number)

    def make_claims(self) -> None:
        for name, count in CLAIMS.items():
            self.cache.set_object("ResourceClaim", make_claim(name, exactly(count=count)))

    def step(self) -> None:
        """Changes something."""
        changes = (
            self.create,
            self.create,
            self.create,
            self.place,
            self.place,
            self.leave,
            self.retry,
            self.edit,
            self.drop,
        )
        more = (
            self.try_out,
            self.relabel,
            self.relabel_pod,
            self.resize,
            self.restart,
            lambda: self.set_node(self.random.randrange(3)),
        )
        self.random.choice((*changes, *changes, *more))()

    # What may happen

    def create(self) -> None:
        if len(self.waiting) > 30:
            return
        self.count += 1
        open_ = [name for name in self.queues.names() if not self.queues.children(name)] if self.queues.active else []
        queue = self.random.choice(open_ if open_ and self.random.random() < 0.7 else (*NAMES, "", "gone"))
        labels = {QUEUE_LABEL: queue} if queue else {}
        gates = [{"name": "held"}] * (self.random.random() < 0.1)
        requests = {"cpu": f"{self.random.randrange(3000)}m", GPU: str(self.random.randrange(3))}
        selector = {MODEL: self.random.choice(MODELS)} if self.random.random() < 0.3 else {}
        claims = claiming(*self.random.sample([*CLAIMS], self.random.choice((0, 0, 0, 1, 2))))
        spec = {"schedulingGates": gates, "nodeSelector": selector, **claims}
        pod = parse_pod(make_pod(f"p{self.count}", labels=labels, requests=requests, spec=spec))
        self.waiting[pod.uid] = pod
        self.cache.groups.add_waiting(pod)
        self._activate(pod)

    def place(self) -> None:
        """Pops some pods, and places them if nothing forbids that."""
        for _ in range(3):
            self.place_one()

    def place_one(self) -> None:
        queued = self.active.pop()
        nodes = [name for name in self.cache.nodes if self.cache.present(name)]
        if queued is None or queued.pod.gates or not nodes:
            return
        rules = self.cache.place_rules
        if rules is not None:
            nodes = [name for name in nodes if rules.refuse(queued.pod, self.cache.nodes[name].slot) is None]
        if nodes and self.queues.bounds.of(queued.pod) is None:
            self.cache.assume(queued.pod, self.random.choice(nodes))
            self.labels[queued.uid] = queued.pod.labels
            if self.random.random() < 0.2:
                self.cache.forget(queued.uid)
                self._activate(queued.pod)
            else:
                del self.waiting[queued.uid]
                self.cache.groups.remove_waiting(queued.uid)

    def leave(self) -> None:
        placed = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        if placed and self.random.random() < 0.7:
            self.cache.remove_pod(self.random.choice(placed).uid)
        elif self.waiting:
            uid = self.random.choice([*self.waiting])
            del self.waiting[uid]
            self.active.remove(uid)
            self.cache.groups.remove_waiting(uid)

    def retry(self) -> None:
        """An event makes the pods active that were popped and not placed."""
        for pod in self.waiting.values():
            if pod.uid not in self.active:
                self._activate(pod)

    def edit(self) -> None:
        quotas = {
            resource: Quota(
                guarantee=max(-1, self.random.choice((0, 0, 1, 2, 4, -1)) * unit),
                limit=max(-1, self.random.choice((-1, 1, 2, 4, 8)) * unit),
                weight=self.random.randrange(4),
            )
            for resource, unit in (
                ("cpu", 1000),
                (GPU, 1),
                ("pods", 1),
                (DEVICES, 1),
                *((of_flavor(GPU, each), 1) for each in MODELS),
            )
            if self.random.random() < 0.6
        }
        # Mostly, at least one queue says which nodes have a flavor.
        flavors: dict[str, Any] = {
            each: {MODEL: each} if self.random.random() < 0.5 else {}
            for each in self.random.sample(MODELS, 2)
            if of_flavor(GPU, each) in quotas
        }
        parent = self.random.choice(("", "", *NAMES))
        state: Any = self.random.choice(("Open",) * 8 + ("Hold", "Drain", "Closed"))
        name, priority = self.random.choice(NAMES), self.random.choice((100, 200))
        lent = self.random.choice((GPU, of_flavor(GPU, "x")))
        lending = {lent: self.random.randrange(3)} if self.random.random() < 0.2 else {}
        team = self.random.choice((EVERYTHING, EVERYTHING, TEAM_A))
        self.queues.set(
            QueueRules(name, parent, priority, quotas, state, namespaces=team, lending=lending, flavors=flavors)
        )
        self._edited()

    def drop(self) -> None:
        if self.random.random() < 0.3:
            self.queues.remove(self.random.choice(NAMES))
            self._edited()

    def edit_several(self) -> None:
        """Several queues change before anybody reads them."""
        for _ in range(3):
            self.random.choice((self.edit, self.edit, self.drop))()

    def relabel(self) -> None:
        labels = {QUEUE_LABEL: self.random.choice(NAMES)} if self.random.random() < 0.5 else {}
        labels["team"] = self.random.choice("ab")
        self.cache.set_object("Namespace", {"metadata": {"name": "default", "labels": labels}})
        self._edited()

    def relabel_pod(self) -> None:
        """Somebody gives a pod on a node other labels."""
        placed = [pod.on(info.name) for info in self.cache.nodes.values() for pod in info.pods.values()]
        if placed:
            pod = self.random.choice(placed)
            self.cache.set_pod(replace(pod, labels={QUEUE_LABEL: self.random.choice(NAMES)}))

    def resize(self) -> None:
        """A pod requests another amount of CPU."""
        placed = [pod.on(info.name) for info in self.cache.nodes.values() for pod in info.pods.values()]
        if not placed and not self.waiting:
            return
        pod = self.random.choice([*placed, *self.waiting.values()])
        requests = {"cpu": f"{self.random.randrange(3000)}m", GPU: str(pod.requests.amounts.get(GPU, 0))}
        resized = replace(pod, requests=parse_pod(make_pod("resized", requests=requests)).requests)
        if pod.node_name:
            self.cache.set_pod(resized)
            self._edited()
        else:
            self.waiting[pod.uid] = resized
            self.cache.groups.add_waiting(resized)
            if pod.uid in self.active:
                self.active.remove(pod.uid)
                self._activate(resized)

    def set_node(self, number: int) -> None:
        if self.random.random() < 0.3:
            self.cache.remove_node(f"n{number}")
            return
        cordoned = self.random.random() < 0.3
        model = self.random.choice((*MODELS, ""))
        node = make_node(
            f"n{number}",
            labels={MODEL: model} if model else {},
            allocatable={GPU: "2"} if self.random.random() < 0.8 else {},
            unschedulable=cordoned,
        )
        self.cache.set_node(parse_node(node))
        self._edited()

    def try_out(self) -> None:
        """A plan that is rolled back."""
        placed = [pod for info in self.cache.nodes.values() if info.node for pod in info.pods.values()]
        with CacheTransaction(self.cache) as transaction:
            transaction.remove(self.random.sample(placed, len(placed) // 2))
            for pod in self.waiting.values():
                transaction.assume(pod, self.random.choice(("n0", "n1")))
            self.check_usage()

    def restart(self) -> None:
        """A new process reads the same objects. Of queues that were invalid, it knows no valid version."""
        before, self.cache = self.cache, Cache()
        rules, self.queues = self.queues.declared, queues_of(self.cache)
        self.queues.pending = self.waiting.values
        self.make_claims()
        if (namespace := before.store.get("Namespace", "default")) is not None:
            self.cache.set_object("Namespace", namespace)
        for info in before.nodes.values():
            if info.node is not None:
                self.cache.set_node(info.node)
            for pod in info.pods.values():
                self.labels[pod.uid] = pod.labels
                self.cache.set_pod(pod.on(info.name))
        for each in rules.values():
            self.queues.set(each)
        self.active = FairPods(self.queues.turns)
        for pod in self.waiting.values():
            self.cache.groups.add_waiting(pod)
            self._activate(pod)
        self._edited()

    def _activate(self, pod: PodInfo) -> None:
        self.active.push(pod.uid, (-pod.priority, self.count), QueuedPod(pod, queued_at=0.0, timestamp=0.0))

    def _edited(self) -> None:
        """An edit may leave a queue above its limit. It must not rise from there."""
        self.allowed = Counter(
            {(name, resource): over for name, resource, over in self._over_limits(self._held()) if over > 0}
        )

    # What must hold

    def check(self) -> None:
        if not self.queues.active:  # the first queue sees all pods anew
            self.labels = {pod.uid: pod.labels for info in self.cache.nodes.values() for pod in info.pods.values()}
            return
        self.check_tree()
        self.check_membership()
        self.check_usage()
        for name, resource, over in self._over_limits(self._held()):
            assert over <= self.allowed[name, resource], f"{name} is above its limit of {resource}"
        self.check_bounds()
        self.check_capacity()
        self.check_shares()
        self.check_order()

    def check_tree(self) -> None:
        """A queue is in the tree as it is declared, or there is a problem. The other problems are guarantees."""
        problems, declared = self.queues.problems, self.queues.declared
        tree = {name: self._rules(name) for name in self.queues.names()}
        valid, invalid = valid_specs(declared, tree)
        assert valid == tree
        assert {name: str(error) for name, error in invalid.items()}.items() <= {
            name: str(error) for name, error in problems.items()
        }.items()
        guarantees: Counter[tuple[str, str]] = Counter()
        for name in self.queues.names():
            for resource, quota in self._rules(name).quotas.items():
                guarantees[self._rules(name).parent, resource] += max(0, quota.guarantee)
        for name, rules in declared.items():
            if (problem := str(problems.get(name, ""))) and "guaranteed" not in problem and "flavor" not in problem:
                continue
            assert self.queues.get(name) == rules
            over = [r for r, quota in rules.quotas.items() if 0 < quota.guarantee < guarantees[name, r]]
            unknown = [flavor for flavor in rules.flavors if flavor not in self._known_flavors()]
            assert bool(over or unknown) == bool(problem)
            assert [*self.queues.path(name)][1:] == [*self.queues.path(rules.parent)]
        if not problems:
            assert {*self.queues.names()} == {*declared}

    def check_membership(self) -> None:
        """A pod belongs to the queue that its label names, or its namespace's label, if its namespace may use it."""
        raw: Any = self.cache.store.get("Namespace", "default") or {"metadata": {}}
        namespace = raw["metadata"].get("labels", {})
        placed = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        labels = {
            **{uid: pod.labels for uid, pod in self.waiting.items()},
            **{pod.uid: self.labels[pod.uid] for pod in placed},
        }
        self.queues.names()
        for pod in (*self.waiting.values(), *placed):
            name = labels[pod.uid].get(QUEUE_LABEL) or namespace.get(QUEUE_LABEL, "")
            usable = all(self._rules(above).namespaces.matches(namespace) for above in self.queues.path(name))
            assert self.queues.queue_of(pod) == (name if usable else "")
            assert not self.queues.names_queue(pod) or name

    def check_usage(self) -> None:
        held = self._held()
        for name in self.queues.names() if self.queues.active else ():
            assert dict(self.queues.usage(name)) == {
                resource: amount for (of, resource), amount in held.items() if of == name and amount
            }

    def check_bounds(self) -> None:
        """A bound really holds, and nothing forbids a pod without a bound."""
        held = self._held()
        for pod in self.waiting.values():
            bound, path = self.queues.bounds.of(pod), self.queues.path(self.queues.queue_of(pod))
            devices = self._claimed(pod)
            choices = [self._over(path, {**amounts, **devices}, held) for amounts in self._choices(pod)]
            over = set[tuple[str, str]]().union(*choices)
            if bound is None:
                assert not all(choices)
                assert not path or all(self._rules(name).state == "Open" for name in path)
                assert bool(path) == self.queues.names_queue(pod)
            elif bound.resource:
                assert all(choices)
                assert (bound.queue, bound.resource) in over
                assert bound.held == held[bound.queue, bound.resource]
            else:
                inner = path and self.queues.children(path[0])
                assert self.queues.names_queue(pod)
                assert not path or inner or any(self._rules(name).state != "Open" for name in path)

    def check_shares(self) -> None:
        """Shares are those of a tree that is made from what there is now."""
        fresh = QueueTree([self._rules(name) for name in self.queues.names()], self.queues.capacity())
        pods = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        for pod in (*pods, *(pod for pod in self.waiting.values() if not self.cache.placement(pod.uid))):
            path = self.queues.path(self.queues.queue_of(pod))
            is_open = all(self._rules(name).state == "Open" for name in path)
            placed = self.cache.placement(pod.uid)
            if path and (placed or (is_open and not pod.gates)):
                amounts = self._amounts(pod) if placed else {**self._asked(pod), **self._claimed(pod)}
                fresh.add_demand(path[0], fresh.tracked(amounts))
        for queue in self.queues.names():
            fresh.add_demand(queue, fresh.tracked({DEVICES: self._devices_held(queue)}))
        assert {name: dict(self.queues.share(name)) for name in self.queues.names()} == {
            name: dict(share) for name, share in fresh.shares().items()
        }

    def check_order(self) -> None:
        """The next pod is of the queue that comes first at each level, or has no queue and sorts no later."""
        head = self.active.peek()
        paths = {each.uid: self.queues.turns.turn_path(each.pod)[::-1] for each in self.active}
        assert (head is None) == (not paths)
        chosen = () if head is None else paths[head[1].uid]
        for level, name in enumerate(chosen):
            siblings = {path[level] for path in paths.values() if path and path[:level] == chosen[:level]}
            assert self.queues.turns.order_key(name) == min(map(self.queues.turns.order_key, siblings))

    def check_capacity(self) -> None:
        """The capacity of a resource is what its nodes have free, and what pods of queues have of it."""
        held = self._held()
        for name, amount in self.queues.capacity().items():
            resource, flavor = parts_of(name)
            if resource == DEVICES:
                assert amount == held["", name], "how many there are is not known"
                continue
            nodes = [each for each in self.cache.nodes.values() if each.node and not each.node.unschedulable]
            free = sum(
                max(0, info.node.allocatable.get(resource, 0) - info.requested.get(resource, 0))
                if resource != "pods"
                else max(0, info.node.allocatable.get("pods", 0) - len(info.pods))
                for info in nodes
                if info.node and (not flavor or self._flavor_of(info) == flavor)
            )
            assert amount == free + held["", name]

    def _over(
        self, path: Sequence[str], amounts: Mapping[str, int], held: Counter[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """The limits that these amounts would exceed, by queue and resource, and where other queues keep what is
        needed.
        """
        over = {
            (name, resource)
            for name in path
            for resource, amount in amounts.items()
            if amount and UNBOUNDED != self._limit(name, resource) < held[name, resource] + amount
        }
        return over | self._kept_over(path, amounts, held)

    def _choices(self, pod: PodInfo) -> list[dict[str, int]]:
        """Returns the pod's amounts on the nodes that offer it GPUs, by their models; without such nodes, its amounts
        anywhere.
        """
        amounts = self._amounts(pod)
        wanted = pod.node_affinity.node_selector.get(MODEL)
        named = {parts_of(r)[1] for name in self.queues.names() for r in self._rules(name).quotas} & {
            *self._known_flavors()
        }
        flavors = {
            self._flavor_of(info)
            for info in self.cache.nodes.values()
            if info.node and info.node.allocatable.get(GPU) and (not wanted or info.node.labels.get(MODEL) == wanted)
        }
        if not amounts.get(GPU) or not named:
            return [amounts]
        found = {flavor if flavor in named else "" for flavor in flavors}
        if (
            wanted
            and wanted not in named
            and any(
                info.node and info.node.allocatable.get(GPU) and self._flavor_of(info) not in named
                for info in self.cache.nodes.values()
            )
        ):
            found.add("")  # nodes without a flavor may have any labels
        return [{**amounts, **self._in_flavor(amounts, flavor)} for flavor in found] or [amounts]

    def _asked(self, pod: PodInfo) -> dict[str, int]:
        """Returns the requests of a waiting pod in each flavor where it may be."""
        amounts, found = self._amounts(pod), dict[str, int]()
        for flavor in self._known_flavors():
            if pod.node_affinity.node_selector.get(MODEL, flavor) == flavor:
                found.update(self._in_flavor(amounts, flavor))
        return {**amounts, **found}

    def _known_flavors(self) -> set[str]:
        return {
            flavor for name in self.queues.names() for flavor, labels in self._rules(name).flavors.items() if labels
        }

    @staticmethod
    def _in_flavor(amounts: Mapping[str, int], flavor: str) -> dict[str, int]:
        return {of_flavor(GPU, flavor): amounts.get(GPU, 0)} if flavor else {}

    def _flavor_of(self, info: NodeInfo) -> str:
        model = info.node.labels.get(MODEL, "") if info.node else ""
        return model if model in self._known_flavors() else ""

    def _kept_over(
        self, path: Sequence[str], amounts: Mapping[str, int], held: Counter[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Where other queues keep what a pod would need, by queue and resource."""
        found, capacity = set(), self.queues.capacity() if path else {}
        for resource, amount in amounts.items():
            if resource not in capacity or not amount:
                continue
            kept = 0
            for name, parent in zip(path, (*path[1:], ""), strict=False):
                siblings = set(self.queues.children(parent)) - {name}
                kept += sum(self._kept(sibling, resource, held) for sibling in siblings)
                limit = self._limit(parent, resource) if parent else capacity[resource]
                if kept and UNBOUNDED != limit < held[parent, resource] + kept + amount:
                    found.add((parent, resource))
        return found

    def _kept(self, name: str, resource: str, held: Counter[tuple[str, str]]) -> int:
        """Returns the amount that others must leave free for a queue."""
        below = sum(self._kept(child, resource, held) for child in self.queues.children(name))
        rules = self._rules(name)
        if resource not in rules.lending or resource not in rules.quotas:
            return below
        own = rules.quotas[resource].guarantee - rules.lending[resource] - held[name, resource]
        return max(below, own)

    def _held(self) -> Counter[tuple[str, str]]:
        """Recounts the amounts of pods in queues, by queue and resource."""
        held: Counter[tuple[str, str]] = Counter()
        named = {resource for name in self.queues.names() for resource in self._rules(name).quotas}
        for info in self.cache.nodes.values():
            for pod in info.pods.values():
                path = self.queues.path(self.queues.queue_of(pod))
                for name in (*path, "") if path else ():
                    for resource, amount in self._amounts(pod).items():
                        held[name, resource] += amount * (resource in named)
        for queue in self.queues.names() if DEVICES in named else ():
            for name in (*self.queues.path(queue), ""):
                held[name, DEVICES] += self._devices_held(queue)
        return held

    def _devices_held(self, queue: str) -> int:
        """How many devices the claims of the queue's placed pods have, each claim once."""
        placed = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        return sum(
            CLAIMS[name] for name in self._claims_of(pod for pod in placed if self.queues.queue_of(pod) == queue)
        )

    def _claimed(self, pod: PodInfo) -> dict[str, int]:
        """Returns the devices that a waiting pod would add: of claims that no placed pod of its queue has."""
        queue = self.queues.queue_of(pod)
        placed = [each for info in self.cache.nodes.values() for each in info.pods.values()]
        known = self._claims_of(each for each in placed if self.queues.queue_of(each) == queue)
        return {DEVICES: sum(CLAIMS[name] for name in self._claims_of([pod]) - known)}

    @staticmethod
    def _claims_of(pods: Iterable[PodInfo]) -> set[str]:
        return {entry.claim for pod in pods for entry in pod.resource_claims}

    def _over_limits(self, held: Counter[tuple[str, str]]) -> list[tuple[str, str, int]]:
        return [
            (name, resource, held[name, resource] - quota.limit)
            for name in self.queues.names()
            for resource, quota in self._rules(name).quotas.items()
            if quota.limit != UNBOUNDED
        ]

    def _rules(self, name: str) -> QueueRules:
        found = self.queues.get(name)
        assert found is not None
        return found

    def _limit(self, name: str, resource: str) -> int:
        return self._rules(name).quotas.get(resource, NO_QUOTA).limit

    def _amounts(self, pod: PodInfo) -> dict[str, int]:
        """Returns a pod's amounts, with those of a flavor if it is placed."""
        info, amounts = self.cache.placement(pod.uid), {**pod.requests.amounts, "pods": 1}
        return amounts if info is None else {**amounts, **self._in_flavor(amounts, self._flavor_of(info))}
