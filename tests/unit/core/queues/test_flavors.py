"""Flavors: what pods have on nodes with certain labels is bounded by itself, and the order of flavors chooses nodes."""

from dataclasses import replace

import pytest

from podwright.core.cycle import Placement
from podwright.core.objects.node import parse_node
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.shown import first_bound
from podwright.core.queues.tree import Quota
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import make_node
from support.queues.reclaims import GPU, QueuedCluster

MODEL = "gpu.example.com/model"
H100, A100 = f"{GPU}@h100", f"{GPU}@a100"
FLAVORS = {"h100": {MODEL: "H100"}, "a100": {MODEL: "A100"}}


def queue(name, parent="", *, h100=None, a100=None, flavors=None, plain=None, **options):
    quotas = {
        key: Quota(**amounts) for key, amounts in ((H100, h100), (A100, a100), (GPU, plain)) if amounts is not None
    }
    return QueueRules(name, parent, quotas=quotas, flavors=FLAVORS if flavors is None else flavors, **options)


class Cluster(QueuedCluster):
    """`nodes`: by name, the model and number of GPUs of each."""

    def __init__(self, nodes, *queues):
        super().__init__([], queues)
        for name, (model, gpus) in nodes.items():
            self.node(name, model, gpus)

    def node(self, name, model, gpus, **options):
        labels = {MODEL: model} if model else {}
        made = make_node(name, labels=labels, allocatable={"cpu": "64", GPU: str(gpus), "pods": "110"}, **options)
        self.cache.set_node(parse_node(made))

    def node_of(self, pod):
        decision = self.decide(pod)
        return decision.node_name if isinstance(decision, Placement) else None

    def why(self, pod):
        return self.decide(pod).filter_message

    def model(self, name, queue, model, gpus=1, **options):
        """A waiting pod that asks for this model."""
        return self.waits(name, queue, gpus, spec={"nodeSelector": {MODEL: model}}, **options)


NODES = {"h": ("H100", 8), "a": ("A100", 8), "n": ("", 8)}


def test_a_pod_counts_for_the_flavor_of_its_node_and_for_the_resource():
    it = Cluster(NODES, queue("ml", plain={}), queue("a", "ml"), queue("named", h100={}, a100={}))
    it.runs("p", "a", "h", 2)
    it.runs("q", "a", "n", 1)
    assert dict(it.queues.usage("ml")) == dict(it.queues.usage("a")) == {GPU: 3, H100: 2}
    assert it.queues.capacity() == {GPU: 24, H100: 8, A100: 8}
    it.cache.remove_pod("default/p")
    assert dict(it.queues.usage("ml")) == {GPU: 1}


def test_a_node_whose_labels_change_takes_its_pods_to_another_flavor():
    it = Cluster(NODES, queue("ml", h100={"limit": 2}, a100={}))
    it.runs("p", "ml", "h", 2)
    it.cache.nominator.add(it.waits("q", "ml"), "h")
    it.node("h", "A100", 8)
    assert (dict(it.queues.usage("ml")), dict(it.queues.queue("ml").promised)) == ({A100: 2}, {A100: 1})
    it.node("h", "", 8)
    assert dict(it.queues.usage("ml")) == {}


def test_a_flavor_that_is_declared_later_counts_what_is_there():
    it = Cluster(NODES, queue("ml", plain={}, flavors={}))
    it.runs("p", "ml", "h", 2)
    it.waits("q", "ml", 3)
    it.queues.set(queue("ml", h100={"limit": 4}))
    assert (dict(it.queues.usage("ml")), it.queues.waiting("ml")[H100]) == ({H100: 2}, 3)
    it.queues.set(queue("ml", plain={}, flavors={}))
    assert dict(it.queues.usage("ml")) == {GPU: 2}
    assert it.cache.place_rules is None


def test_nodes_of_a_flavor_without_room_are_refused_with_queue_flavor_and_amounts():
    it = Cluster({"h": ("H100", 8), "a": ("A100", 1)}, queue("ml", h100={"limit": 2}, a100={}))
    it.runs("p", "ml", "h", 2)
    it.runs("q", "ml", "a", 1)
    assert it.why(it.waits("r", "ml")) == (
        f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) of flavor h100: ml holds 2 of 2 {H100}."
    )


def test_a_pod_whose_flavors_are_all_full_waits_for_their_bounds():
    it = Cluster({"h": ("H100", 8), "a": ("A100", 8)}, queue("ml", h100={"limit": 2}, a100={"limit": 1}))
    it.runs("p", "ml", "h", 2)
    it.runs("q", "ml", "a", 1)
    bound = it.queues.bounds.of(it.waits("r", "ml"))
    assert bound.message == f"ml holds 2 of 2 {H100}; ml holds 1 of 1 {A100}"
    assert (bound.queue, bound.resource, bound.held, bound.limit) == ("ml", H100, 2, 2)
    assert it.queues.bounds.of(it.model("s", "ml", "A100")).resource == A100
    it.node("n", "", 8)  # here no flavor bounds the queue
    assert it.queues.bounds.of(it.pod("r", "ml")) is None
    assert it.node_of(it.pod("r", "ml")) == "n"


def test_a_limit_of_the_resource_holds_on_all_nodes_whoever_declares_flavors():
    it = Cluster(NODES, queue("other", h100={}, a100={}), queue("ml", plain={"limit": 3}, flavors={}))
    it.runs("p", "ml", "h", 2)
    it.runs("q", "ml", "n", 1)
    assert it.queues.bounds.of(it.waits("r", "ml")).message == f"ml holds 3 of 3 {GPU}"


def test_limits_of_flavors_hold_at_each_level():
    it = Cluster(NODES, queue("ml", h100={"limit": 3}), queue("a", "ml", flavors={}), queue("b", "ml", flavors={}))
    it.runs("p", "a", "h", 3)
    assert it.queues.bounds.at(it.waits("q", "b"), ("h100",)).queue == "ml"
    assert it.node_of(it.pod("q", "b")) in ("a", "n")


@pytest.mark.parametrize("first, second", [("h100", "a100"), ("a100", "h100")])
def test_nodes_are_used_in_the_order_of_the_queues_flavors_and_borrowing_comes_last(first, second):
    quota = {"guarantee": 2}
    flavors = {name: FLAVORS[name] for name in (first, second)}
    it = Cluster(NODES, queue("ml", h100=quota, a100=quota, flavors=flavors))
    nodes = {"h100": "h", "a100": "a"}
    used = []
    for number in range(17):
        node = it.node_of(it.pod(f"p{number}", "ml"))
        used.append(node)
        it.runs(f"p{number}", "ml", node)
    expected = [nodes[first]] * 2 + [nodes[second]] * 2 + [nodes[first]] * 6 + [nodes[second]] * 6 + ["n"]
    assert used == expected


def test_another_order_of_flavors_takes_effect():
    it = Cluster(NODES, queue("ml", h100={}, a100={}))
    assert it.node_of(it.pod("p", "ml")) == "h"
    it.queues.set(queue("ml", h100={}, a100={}, flavors={name: FLAVORS[name] for name in ("a100", "h100")}))
    assert it.node_of(it.pod("q", "ml")) == "a"


def test_the_order_is_that_of_the_nearest_queue_that_names_flavors():
    above = {name: FLAVORS[name] for name in ("a100", "h100")}
    it = Cluster(
        NODES, queue("ml", h100={"guarantee": 8}, a100={"guarantee": 1}, flavors=above), queue("x", "ml", flavors={})
    )
    assert it.node_of(it.pod("p", "x")) == "a"
    it.runs("p", "x", "a")
    assert it.node_of(it.pod("q", "x")) == "h"


def test_pods_without_a_queue_and_those_that_request_nothing_of_it_see_no_flavors():
    it = Cluster({"h": ("H100", 8)}, queue("ml", h100={"limit": 0}))
    assert it.node_of(it.pod("p", "")) == "h"
    assert it.node_of(it.pod("q", "ml", 0)) == "h"
    assert it.node_of(it.pod("r", "ml", 1)) is None


@pytest.mark.parametrize(
    ("spec", "flavors"),
    [
        ({}, {H100, A100}),
        ({"nodeSelector": {MODEL: "A100"}}, {A100}),
        ({"nodeSelector": {MODEL: "L4"}}, set()),
        ({"nodeSelector": {"zone": "z"}}, {H100, A100}),
        ({"affinity": [("In", ["A100", "L4"])]}, {A100}),
        ({"affinity": [("NotIn", ["H100"])]}, {A100}),
        ({"affinity": [("In", ["H100"]), ("In", ["A100"])]}, {H100, A100}),
        ({"affinity": [("Exists", [])]}, {H100, A100}),
        ({"affinity": [("DoesNotExist", [])]}, set()),
    ],
)
def test_a_waiting_pod_asks_for_each_flavor_whose_nodes_it_may_use(spec, flavors):
    it = Cluster(NODES, queue("ml", h100={}, a100={}))
    if terms := spec.get("affinity"):
        each = [{"matchExpressions": [{"key": MODEL, "operator": op, "values": values}]} for op, values in terms]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": each}}
        spec = {"affinity": {"nodeAffinity": required}}
    it.waits("p", "ml", 2, spec=spec)
    assert dict(it.queues.waiting("ml")) == dict.fromkeys(flavors, 2)
    it.queues.remove_waiting("default/p")
    assert dict(it.queues.waiting("ml")) == {}


def test_shares_of_each_flavor_are_their_own():
    it = Cluster(NODES, queue("x", h100={"weight": 3}, a100={}), queue("y", h100={}, a100={"guarantee": 6}))
    for name in ("x", "y"):
        for number in range(20):
            it.waits(f"{name}{number}", name)
    assert dict(it.queues.share("x")) == {H100: 6, A100: 1}
    assert dict(it.queues.share("y")) == {H100: 2, A100: 7}


def test_a_transaction_leaves_no_trace():
    it = Cluster(NODES, queue("ml", h100={"limit": 2}, a100={}))
    pod = it.runs("p", "ml", "h", 2)
    waiting = it.waits("q", "ml", 1)
    before = (dict(it.queues.usage("ml")), dict(it.queues.waiting("ml")), dict(it.queues.queue("ml").request))
    with CacheTransaction(it.cache) as transaction:
        transaction.remove([pod])
        transaction.assume(waiting, "a")
        assert dict(it.queues.usage("ml")) == {A100: 1}
    assert before == (dict(it.queues.usage("ml")), dict(it.queues.waiting("ml")), dict(it.queues.queue("ml").request))


def test_a_nominated_pod_that_may_not_use_its_node_any_more_goes_elsewhere():
    it = Cluster(NODES, queue("ml", h100={"limit": 2}, a100={}))
    pod = replace(it.waits("p", "ml"), nominated_node_name="h")
    assert it.node_of(pod) == "h"
    it.runs("q", "ml", "h", 2)
    assert it.node_of(pod) == "a"


def test_pods_that_do_not_lend_a_flavor_keep_it_free():
    lending = {H100: 0}
    it = Cluster({"h": ("H100", 4)}, queue("x", h100={"guarantee": 3}, lending=lending), queue("y", h100={}))
    it.runs("p", "y", "h")
    assert it.queues.bounds.of(it.waits("q", "y")).message == (
        f"all queues hold 1 of 4 {H100}, and 3 are kept for queues that do not lend them"
    )
    assert it.node_of(it.waits("r", "x", 3)) == "h"


def test_pods_that_are_never_evicted_stay_within_the_guarantee_of_a_flavor():
    it = Cluster(NODES, queue("ml", h100={"guarantee": 1}, a100={"guarantee": 2}, firm_priority=10))
    it.runs("p", "ml", "h", priority=10)
    assert it.node_of(it.waits("q", "ml", 2, priority=10)) == "a"
    assert it.why(it.model("r", "ml", "H100", priority=10)).startswith(
        "0/3 nodes are available: ml is guaranteed 1 nvidia.com/gpu@h100"
    )


class TestWhatIsSaidOfFlavors:
    def test_one_queue_says_which_nodes_have_a_flavor_for_all(self):
        it = Cluster(NODES, queue("ml", h100={"limit": 8}), queue("a", "ml", h100={"limit": 1}, flavors={"h100": {}}))
        assert it.queues.problems == {}
        it.runs("p", "a", "h", 1)
        assert it.queues.bounds.at(it.waits("q", "a"), ("h100",)).queue == "a"

    def test_without_any_it_is_a_problem(self):
        it = Cluster(NODES, queue("ml", h100={"limit": 8}, flavors={"h100": {}}))
        assert str(it.queues.problems["ml"]) == (
            "SchedulingQueue ml: spec.flavors[h100].nodeSelector: a value is required: no other queue says which nodes have this flavor"
        )
        it.queues.set(queue("other"))
        assert it.queues.problems == {}

    def test_the_queue_nearest_to_the_top_counts(self):
        it = Cluster(NODES, queue("z"), queue("a", "z", h100={}, flavors={"h100": {MODEL: "L4"}}))
        assert str(it.queues.problems["a"]) == (
            "SchedulingQueue a: spec.flavors[h100].nodeSelector: "
            f"queue z says that nodes of this flavor have the labels {MODEL}=H100, which counts"
        )
        it.runs("p", "a", "h")
        assert dict(it.queues.usage("a")) == {H100: 1}
        it.queues.remove("z")
        it.queues.set(queue("a", h100={}, flavors={"h100": {MODEL: "L4"}}))
        assert (it.queues.problems, dict(it.queues.usage("a"))) == ({}, {})


class TestReclaim:
    """Each flavor is taken back by itself. Victims have run for an hour."""

    def fill(self, it, queue, node, count, **options):
        return [it.runs(f"{queue}-{node}-{i}", queue, node, **options) for i in range(count)]

    def test_what_is_guaranteed_in_a_flavor_is_taken_back_although_the_queue_borrows_in_another(self):
        it = Cluster(
            {"h": ("H100", 4), "a": ("A100", 4)},
            queue("x", h100={"guarantee": 2}, a100={"guarantee": 2}),
            queue("y", h100={"guarantee": 2}, a100={"guarantee": 2}),
        )
        self.fill(it, "x", "h", 4)
        self.fill(it, "y", "a", 4)
        decision = it.decide(it.model("p", "x", "A100"))
        assert (decision.nominated_node, len(decision.victims)) == ("a", 1)
        assert it.victims(it.model("q", "x", "H100")) == []

    def test_a_limit_of_the_resource_on_all_nodes_changes_nothing_about_that(self):
        it = Cluster(
            {"h": ("H100", 4), "a": ("A100", 4)},
            queue("x", h100={"guarantee": 2}, a100={"guarantee": 2}, plain={"limit": 8}),
            queue("y", a100={"guarantee": 2}),
        )
        self.fill(it, "x", "h", 4)
        self.fill(it, "y", "a", 4)
        assert len(it.victims(it.model("p", "x", "A100"))) == 1

    def test_the_first_flavor_in_the_queues_order_in_which_it_may_take_something(self):
        it = Cluster(
            {"h": ("H100", 2), "a": ("A100", 2)},
            queue("x", h100={}, a100={"guarantee": 1}, plain={"weight": 0}),
            queue("y", h100={"guarantee": 2}, a100={}),
        )
        self.fill(it, "y", "h", 2)
        self.fill(it, "y", "a", 2)
        assert it.decide(it.waits("p", "x")).nominated_node == "a"

    def test_a_guarantee_on_all_nodes_protects_in_each_flavor(self):
        it = Cluster(
            {"h": ("H100", 2)}, queue("x", h100={"guarantee": 2}), queue("y", plain={"guarantee": 2}, flavors={})
        )
        self.fill(it, "y", "h", 2)
        assert it.victims(it.waits("p", "x")) == []

    def test_at_the_limit_of_a_flavor_lower_priorities_of_the_queue_make_room_there(self):
        it = Cluster({"h": ("H100", 8), "a": ("A100", 1)}, queue("x", h100={"limit": 2}, a100={"limit": 1}))
        self.fill(it, "x", "h", 2)
        self.fill(it, "x", "a", 1, priority=10)
        decision = it.decide(it.waits("p", "x", priority=5))
        assert (decision.nominated_node, len(decision.victims)) == ("h", 1)

    def test_what_is_not_lent_is_not_taken_by_evicting_pods_of_the_own_queue(self):
        lent = {"lending": {H100: 0}}
        nodes = {"h": ("H100", 3), "a": ("A100", 1)}  # an A100 is no matter of quotas, but there is none free
        it = Cluster(nodes, queue("x", h100={}, a100={}), queue("y", h100={"guarantee": 2}, **lent))
        self.fill(it, "x", "h", 3)
        self.fill(it, "", "a", 1)
        assert it.victims(it.waits("p", "x", priority=5)) == []

    def test_a_gang_takes_its_room_in_one_flavor(self):
        it = Cluster(
            {"h": ("H100", 4), "a": ("A100", 4)},
            queue("x", h100={}, a100={"guarantee": 3}),
            queue("y", h100={"guarantee": 4}, a100={}),
        )
        self.fill(it, "y", "h", 4)
        self.fill(it, "y", "a", 4)
        preemption = it.decide_gang(it.gang("g", "x", 3)).preemption
        assert {*preemption.nominations.values()} == {"a"}
        assert len(preemption.victims) == 3

    def test_a_gang_does_not_exceed_the_limit_of_a_flavor(self):
        it = Cluster({"h": ("H100", 4), "a": ("A100", 4)}, queue("x", h100={"limit": 2}, a100={}))
        placed = it.decide_gang(it.gang("g", "x", 5)).placements
        assert sorted(placement.node_name for placement in placed) == ["a", "a", "a", "h", "h"]


def test_pods_tried_again_are_counted_in_the_flavor_that_has_room():
    it = Cluster(NODES, queue("ml", h100={"limit": 1}, a100={"limit": 1}))
    it.cache.remove_node("n")
    waiting = [it.waits(f"p{i}", "ml") for i in range(3)]
    admitted = []
    for pod in waiting:
        if it.queues.turns.admits(pod):
            it.queues.turns.try_again(pod)
            admitted.append(pod.name)
    assert admitted == ["p0", "p1"]
    assert it.queues.turns.tried("default/p0")
    assert it.queues.turns.admits(waiting[2])


def test_pods_tried_again_are_counted_once_when_a_flavor_is_declared():
    it = Cluster(NODES, queue("ml", plain={"limit": 2}, flavors={}))
    first, second = it.waits("p", "ml"), it.waits("q", "ml")
    it.queues.turns.try_again(first)
    it.queues.set(queue("ml", h100={}, plain={"limit": 2}))
    assert it.queues.turns.admits(second)
    assert it.queues.turns.tried(first.uid)
    assert it.queues.tree().get("ml").trying == {}


def test_the_first_pod_that_a_bound_holds_back_need_not_be_the_first_that_waits():
    it = Cluster(NODES, queue("ml", plain={"limit": 2}, flavors={}))
    it.waits("p", "ml", 2)  # waits for a node
    second = it.waits("q", "ml", 3)
    pod, bound = first_bound(it.queues, "ml")
    assert (pod, bound.requested) == (second, 3)


def test_only_of_what_is_not_lent_it_is_asked_how_much_is_free(monkeypatch):
    lent = queue("b", plain={"guarantee": 2}, h100={"guarantee": 2}, lending={GPU: 0})
    it = Cluster(NODES, queue("a", h100={}, a100={}), lent)
    pod, asked = it.waits("p", "a"), []
    assert it.queues.bounds.of(pod) is None
    table = it.cache.table
    allocatable = table.allocatable
    monkeypatch.setattr(table, "allocatable", lambda name: asked.append(name) or allocatable(name))
    assert it.queues.bounds.of(pod) is None
    assert asked == [GPU]
