"""Device classes in queues: what the claims of pods request counts, a shared claim once, and bounds hold for it."""

from dataclasses import replace
from random import Random

import pytest

from podwright.core.objects.frozen import FrozenDict
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.preemption.queue_claims import claim_of
from podwright.core.queues.queues import USER_LABEL, QueueRules
from podwright.core.queues.tree import Quota
from podwright.core.state.transaction import CacheTransaction
from support.objects.devices import allocated, claiming, exactly, first_available, make_claim, make_class, make_slice
from support.queues.reclaims import QueuedCluster

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
OTHERS = "nic.deviceclass.resource.k8s.io/devices"


def queue(name, parent="", *, others=None, **quota):
    quotas = {DEVICES: Quota(**quota), **({} if others is None else {OTHERS: Quota(**others)})}
    return QueueRules(name, parent, quotas=quotas)


class Cluster(QueuedCluster):
    def __init__(self, *queues):
        super().__init__([0, 0], queues)
        for name in ("gpu", "nic"):
            self.cache.set_object("DeviceClass", make_class(name))

    def claim(self, name, *requests, **options):
        self.cache.set_object("ResourceClaim", make_claim(name, *requests, **options))

    def waits_for(self, name, queue, *claims, **options):
        return self.waits(name, queue, 0, spec=claiming(*claims), **options)

    def runs_with(self, name, queue, *claims, **options):
        return self.runs(name, queue, "n0", 0, spec=claiming(*claims), **options)

    def held(self, name="ml"):
        return self.queues.usage(name).get(DEVICES, 0)


@pytest.mark.parametrize(
    ("request_", "devices", "others"),
    [
        (exactly(), 1, 0),
        (exactly(count=3), 3, 0),
        (exactly(device_class="nic", count=2), 0, 2),
        (exactly(device_class="third", count=2), 0, 0),
        (exactly(adminAccess=True), 0, 0),
        (exactly(allocationMode="All"), 0, 0),
        (first_available("r", exactly("a", count=2), exactly("b", count=4), exactly("c", "nic")), 4, 1),
    ],
    ids=["one", "three", "another class", "a class without quota", "for administrators", "all", "alternatives"],
)
def test_a_claim_counts_with_the_devices_that_it_requests(request_, devices, others):
    it = Cluster(queue("ml", others={}))
    it.claim("c", request_)
    it.waits_for("p", "ml", "c")
    assert (it.queues.waiting("ml").get(DEVICES, 0), it.queues.waiting("ml").get(OTHERS, 0)) == (devices, others)
    it.runs_with("q", "ml", "c")
    assert (it.held(), it.queues.usage("ml").get(OTHERS, 0)) == (devices, others)
    it.cache.remove_pod("default/q")
    assert it.held() == 0


def test_an_allocated_claim_counts_with_what_it_has_got():
    it = Cluster(queue("ml", limit=3, others={}))
    it.claim("all", exactly(allocationMode="All"))
    it.claim("either", first_available("r", exactly("a", count=2), exactly("b", "nic")))
    it.runs_with("p", "ml", "all", "either")
    assert dict(it.queues.usage("ml")) == {DEVICES: 2, OTHERS: 1}
    it.claim("all", exactly(allocationMode="All"), status=allocated("g0", "g1", node="n0"))
    assert dict(it.queues.usage("ml")) == {DEVICES: 4, OTHERS: 1}
    it.claim(
        "either",
        first_available("r", exactly("a", count=2), exactly("b", "nic")),
        status=allocated("n0", node="n0", request="r/b"),
    )
    assert dict(it.queues.usage("ml")) == {DEVICES: 2, OTHERS: 1}
    assert it.queues.queue("ml").request[DEVICES] == 2


def test_a_shared_claim_counts_once_in_a_queue_until_its_last_pod_is_gone():
    it = Cluster(queue("ml", limit=2), queue("a", "ml"), queue("b", "ml"))
    it.claim("c", exactly(count=2))
    it.runs_with("p", "a", "c")
    it.runs_with("q", "a", "c")
    assert it.queues.bounds.of(it.waits_for("r", "a", "c")) is None
    assert it.queues.bounds.of(it.waits_for("s", "b", "c")).message == (f"ml holds 2 of 2 {DEVICES}")
    for left, name in ((2, "p"), (0, "q")):
        it.cache.remove_pod(f"default/{name}")
        assert it.held() == left
    assert it.queues.queue("a").request[DEVICES] == it.queues.waiting("a")[DEVICES] == 2, "what still waits"
    it.runs_with("u", "a", "c")
    assert (it.queues.queue("a").request[DEVICES], it.queues.waiting("a").get(DEVICES, 0)) == (2, 0)


def test_pods_wait_for_the_limit_of_a_class_at_each_level():
    it = Cluster(queue("ml", limit=3), queue("a", "ml"), queue("b", "ml"))
    for number in range(4):
        it.claim(f"c{number}", exactly(count=2))
    it.runs_with("p", "a", "c0")
    assert it.queues.bounds.of(it.waits_for("q", "b", "c1")).message == (
        f"ml holds 2 of 3 {DEVICES}, and the pod requests 2"
    )
    assert it.queues.bounds.of(it.waits_for("r", "b")) is None


def test_a_claim_that_comes_after_its_pod_counts_from_then_on():
    it = Cluster(queue("ml"))
    it.runs_with("p", "ml", "c")
    it.waits_for("q", "ml", "d")
    assert (it.held(), it.queues.waiting("ml").get(DEVICES, 0)) == (0, 0)
    it.claim("c", exactly(count=2))
    it.claim("d", exactly(count=3))
    assert (it.held(), it.queues.waiting("ml")[DEVICES], it.queues.queue("ml").request[DEVICES]) == (2, 3, 5)
    it.cache.remove_object("ResourceClaim", "c", "default")
    assert it.held() == 0


def test_an_extended_resource_counts_for_the_class_that_stands_for_it():
    it = Cluster(queue("ml", limit=3))
    pod = it.runs("p", "ml", "n0", 0, requests={"example.com/gpu": "2"})
    assert it.held() == 0
    it.cache.set_object("DeviceClass", make_class("gpu", extendedResourceName="example.com/gpu"))
    assert it.held() == 2
    assert it.queues.bounds.of(it.waits("q", "ml", 0, requests={"example.com/gpu": "2"})).resource == DEVICES
    implicit = {"deviceclass.resource.kubernetes.io/gpu": "1"}
    assert it.queues.bounds.of(it.waits("r", "ml", 0, requests=implicit)) is None
    it.cache.remove_pod(pod.uid)
    assert it.queues.bounds.of(it.pod("q", "ml", 0, requests={"example.com/gpu": "2"})) is None


def test_a_class_that_a_queue_names_later_counts_what_is_there():
    it = Cluster(QueueRules("ml", quotas={"cpu": Quota()}))
    it.claim("c", exactly(count=2))
    it.claim("d", exactly())
    it.runs_with("p", "ml", "c")
    it.waits_for("q", "ml", "d")
    it.queues.set(queue("ml", limit=2))
    assert (it.held(), it.queues.waiting("ml")[DEVICES]) == (2, 1)
    assert it.queues.bounds.of(it.pod("q", "ml", 0, spec=claiming("d"))).held == 2


def test_users_have_caps_of_devices():
    it = Cluster(QueueRules("ml", quotas={DEVICES: Quota()}, user_limits={DEVICES: 1}))
    labels = {"podwright.dev/user": "ann"}
    for name in ("c", "d"):
        it.claim(name, exactly())
    it.runs_with("p", "ml", "c", labels=labels)
    assert it.queues.bounds.of(it.waits_for("q", "ml", "d", labels=labels)).message == (
        f"user ann holds 1 of 1 {DEVICES} in ml"
    )


def test_a_gang_that_shares_a_claim_is_not_held_back_by_counting_it_for_each_member():
    it = Cluster(queue("ml", limit=4))
    it.claim("c", exactly(count=4))
    pods = [it.waits_for(f"p{i}", "ml", "c") for i in range(3)]
    assert it.queues.bounds.together(pods, 3) is None
    assert it.queues.amounts_together(pods, ())[DEVICES] == 4


def with_devices(it, count):
    it.cache.set_object("ResourceSlice", make_slice("s", [{"name": f"g{i}"} for i in range(count)], node="n0"))


def runs_with_device(it, name, queue, number, **options):
    status = allocated(f"g{number}", node="n0", reserved_for=[f"default/{name}"])
    it.claim(f"c{number}", exactly(), status=status)
    return it.runs_with(name, queue, f"c{number}", **options)


@pytest.mark.parametrize(("count", "victims"), [(1, 1), (2, 2), (3, 0)])
def test_guaranteed_devices_are_taken_back_of_a_queue_above_its_guarantee(count, victims):
    """How many devices there are is not known: shares are shares of what queues have."""
    it = Cluster(queue("a", guarantee=2), queue("b", guarantee=1))
    pods = [runs_with_device(it, f"p{number}", "b", number) for number in range(3)]
    it.claim("d", exactly(count=count))
    claim = claim_of(it.cache, (it.waits_for("q", "a", "d"),), 0, BudgetRules(()), it.now)
    assert sum(map(claim.take, claim.candidates(pods))) == victims


def test_at_the_limit_of_a_class_lower_priorities_of_the_queue_make_room():
    it = Cluster(queue("ml", limit=1))
    with_devices(it, 2)
    runs_with_device(it, "p", "ml", 0)
    it.claim("d", exactly())
    assert it.victims(it.waits_for("q", "ml", "d")) == []
    assert it.victims(it.waits_for("r", "ml", "d", priority=5)) == ["p"]


def test_devices_in_flavors():
    model = {"model": "h"}
    quotas = {f"{DEVICES}@h": Quota(limit=1)}
    it = Cluster(QueueRules("ml", quotas=quotas, flavors={"h": model}))
    for name in ("c", "d"):
        it.claim(name, exactly())
    it.cache.set_node(replace(it.cache.nodes["n0"].node, labels=FrozenDict(model)))
    it.runs_with("p", "ml", "c")
    assert dict(it.queues.usage("ml")) == {f"{DEVICES}@h": 1}
    waiting = it.waits_for("q", "ml", "d")
    assert it.queues.bounds.at(waiting, ("h",)).limit == 1
    assert it.queues.bounds.of(waiting) is None


@pytest.mark.parametrize("seed", range(20))
def test_over_histories_each_claim_counts_once_in_each_queue_and_limits_hold(seed):
    random = Random(seed)
    it = Cluster(queue("ml", limit=6), queue("a", "ml", limit=4), queue("b", "ml"))
    counts = {f"c{number}": random.randint(1, 3) for number in range(8)}
    waiting, running = {}, {}

    def check(*, limits=True):
        held = dict.fromkeys(("a", "b"), 0)
        for name in held:
            claims = {claim for of, claims in running.values() for claim in claims if of == name}
            held[name] = sum(counts[claim] for claim in claims)
        assert {name: it.held(name) for name in held} == held
        assert it.held() == sum(held.values())
        assert not limits or (it.held("a") <= 4 and it.held() <= 6)
        for name in ("a", "b", "ml"):
            assert it.queues.queue(name).request.get(DEVICES, 0) <= it.held(name) + it.queues.waiting(name).get(
                DEVICES, 0
            )

    for name, count in counts.items():
        it.claim(name, exactly(count=count))
    for number in range(120):
        action = random.random()
        if action < 0.4:
            of, claims = random.choice("ab"), random.sample([*counts], random.randint(0, 2))
            waiting[f"p{number}"] = of, claims, it.waits_for(f"p{number}", of, *claims)
        elif action < 0.7 and waiting:
            name = random.choice([*waiting])
            of, claims, pod = waiting[name]
            if it.queues.bounds.of(pod) is None:
                it.cache.assume(pod, "n0")
                it.queues.remove_waiting(pod.uid)
                running[name] = of, claims
                del waiting[name]
            else:
                new = {claim for claim in claims if not any(claim in c for o, c in running.values() if o == of)}
                more = sum(counts[claim] for claim in new)
                assert it.held() + more > 6 or (of == "a" and it.held("a") + more > 4)
        elif action < 0.9 and running:
            name = random.choice([*running])
            it.cache.remove_pod(f"default/{name}")
            del running[name]
        elif running:
            placed = [pod for info in it.cache.nodes.values() for pod in info.pods.values()]
            with CacheTransaction(it.cache) as transaction:
                transaction.remove(random.sample(placed, len(placed) // 2))
                for _, _, pod in waiting.values():
                    transaction.assume(pod, "n0")
        check()
    for name in [*running]:
        it.cache.remove_pod(f"default/{name}")
    for _, _, pod in waiting.values():
        it.queues.remove_waiting(pod.uid)
    assert dict(it.queues.usage("ml")) == {}
    assert not any(it.queues.queue("ml").request.values())


def test_a_user_limit_of_devices_holds_although_no_queue_has_a_quota_of_them():
    it = Cluster(QueueRules("ml", quotas={}))
    it.claim("c", exactly(count=2))
    it.claim("d", exactly())
    user = {"labels": {USER_LABEL: "ann"}}
    it.runs_with("p", "ml", "c", **user)
    waiting = it.waits_for("q", "ml", "d", **user)
    assert it.queues.bounds.of(waiting) is None
    it.queues.set(QueueRules("ml", quotas={}, user_limits={DEVICES: 2}))
    assert it.queues.bounds.of(waiting).kind == "user"
    it.queues.set(QueueRules("ml", quotas={}, user_limits={DEVICES: 3}))
    assert it.queues.bounds.of(waiting) is None


def test_pods_are_told_of_claims_that_take_something_else():
    it, told = Cluster(queue("ml", limit=3, others={})), []
    requests = first_available("r", exactly("a", count=2), exactly("b", "nic"))
    it.claim("c", requests)
    it.runs_with("p", "ml", "c")
    assert it.held() == 2
    it.queues.listen(lambda: told.append(it.held()))
    it.claim("c", requests)
    assert told == []
    it.claim("c", requests, status=allocated("n0", node="n0", request="r/b"))
    assert told == [0]
