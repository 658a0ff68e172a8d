"""Queues count the pods of the cache, and name the bound that forbids a pod."""

import weakref
from dataclasses import replace
from unittest import mock

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KAI_KIND, KIND, WORKLOAD_API
from podwright.core.objects.selectors import parse_label_selector
from podwright.core.queues.bounds import Bounds
from podwright.core.queues.membership import Membership
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.shown import warnings
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import in_group, make_node, make_pod, make_pod_group, make_taint

GPU = "nvidia.com/gpu"


def gpus(**amounts):
    return {GPU: Quota(**amounts)}


def a_pod(name, queue="", count=1, namespace="default"):
    made = make_pod(name, namespace=namespace, labels={QUEUE_LABEL: queue} if queue else {}, requests={GPU: str(count)})
    return parse_pod(made)


@pytest.fixture
def cache():
    made = Cache()
    for number in range(4):
        made.set_node(parse_node(make_node(f"n{number}", allocatable={GPU: "8"})))
    return made


@pytest.fixture
def queues(cache):
    made = queues_of(cache)
    made.set(QueueRules("ml", quotas=gpus(limit=6, guarantee=4)))
    made.set(QueueRules("train", "ml", quotas=gpus(limit=5)))
    made.set(QueueRules("serve", "ml"))
    return made


def test_assumed_pods_count_up_to_the_top_and_stop_counting_when_forgotten(cache, queues):
    cache.assume(a_pod("a", "train", 2), "n0")
    cache.assume(a_pod("b", "serve"), "n1")
    cache.assume(a_pod("c"), "n1")
    assert [queues.usage(name)[GPU] for name in ("train", "serve", "ml")] == [2, 1, 3]
    cache.forget("default/a")
    assert [queues.usage(name).get(GPU, 0) for name in ("train", "serve", "ml")] == [0, 1, 1]


@pytest.mark.parametrize("spec", [{}, in_group()], ids=["alone", "in a group"])
def test_of_a_pod_with_a_node_only_the_newest_version_is_kept(cache, queues, spec):
    """The version that waited has the whole object."""

    def version(node=""):
        raw = make_pod("a", node=node, labels={QUEUE_LABEL: "train"}, requests={GPU: "2"}, spec=spec)
        return parse_pod(raw, keep_raw=not node)

    pending = version()
    cache.groups.add_waiting(pending)
    cache.assume(pending, "n0")
    cache.set_pod(version("n0"))
    cache.groups.remove_waiting(pending.uid)
    kept = weakref.ref(pending)
    del pending
    assert kept() is None
    assert queues.usage("ml")[GPU] == 2


def test_a_bound_names_the_queue_that_is_full_and_the_amounts(cache, queues):
    cache.assume(a_pod("a", "train", 4), "n0")
    assert queues.bounds.of(a_pod("b", "train")) is None
    assert queues.bounds.of(a_pod("b", "train", 2)).message == (
        "train holds 4 of 5 nvidia.com/gpu, and the pod requests 2; ml has 2 free of 6"
    )
    cache.assume(a_pod("c", "serve", 2), "n0")
    found = queues.bounds.of(a_pod("d", "serve"))
    assert (found.queue, found.resource, found.held, found.limit) == ("ml", GPU, 6, 6)
    assert found.message == "ml holds 6 of 6 nvidia.com/gpu"
    assert queues.bounds.of(a_pod("e")) is None


def test_a_transaction_leaves_no_trace(cache, queues):
    cache.assume(a_pod("a", "train", 4), "n0")
    with CacheTransaction(cache) as transaction:
        transaction.remove([cache.placement("default/a").pods["default/a"]])
        assert GPU not in queues.usage("ml")
        transaction.assume(a_pod("b", "serve", 3), "n1")
        assert queues.usage("ml")[GPU] == 3
    assert dict(queues.usage("ml")) == {GPU: 4}


@pytest.mark.parametrize(
    "queue, message",
    [
        pytest.param("gone", "queue gone does not exist (named by metadata.labels[podwright.dev/queue])", id="a queue that does not exist"),
        pytest.param("ml", "queue ml has queues below it, so no pods start in it (named by metadata.labels[podwright.dev/queue])", id="a queue with queues below it"),
        pytest.param("orphan", "queue orphan is invalid: SchedulingQueue orphan: spec.parent: queue 'x' does not exist", id="a queue whose parent does not exist"),
        pytest.param("below", "queue held is in state Hold", id="a queue below one that holds pods"),
        pytest.param("red", "namespace default may not use queue red (named by metadata.labels[podwright.dev/queue]): spec.namespaceSelector of queue red does not match the namespace's labels", id="a queue of other namespaces"),
    ],
)  # fmt: skip
def test_pods_wait_for_a_queue_that_they_cannot_use(queues, queue, message):
    red = parse_label_selector({"matchLabels": {"team": "red"}}, "")
    queues.set(QueueRules("orphan", "x"))
    queues.set(QueueRules("held", state="Hold"))
    queues.set(QueueRules("below", "held"))
    queues.set(QueueRules("red", namespaces=red))
    assert queues.bounds.of(a_pod("a", queue)).message == message


def test_a_pods_queue_is_that_of_its_label_then_its_policy_then_its_namespace(cache, queues):
    namespace = {"metadata": {"name": "team", "labels": {QUEUE_LABEL: "serve"}}}
    cache.assume(a_pod("placed", namespace="team"), "n0")
    cache.set_object("Namespace", namespace)
    assert queues.queue_of(a_pod("a", namespace="team")) == "serve"
    assert dict(queues.usage("serve")) == {GPU: 1}
    queues.membership.choice_by_policy = lambda _pod: "train"
    assert (queues.queue_of(a_pod("a", namespace="team")), queues.source_of(a_pod("a"))) == ("train", "policy")
    assert queues.queue_of(a_pod("a", "ml", namespace="team")) == "ml"
    queues.membership.choice_by_policy = None
    cache.remove_object("Namespace", "team")
    assert dict(queues.usage("serve")) == {}


def test_what_waits_and_what_is_placed_is_the_demand_that_shares_follow(cache, queues):
    queues.add_waiting(a_pod("a", "train", 3))
    queues.add_waiting(a_pod("b", "serve", 2))
    assert (queues.waiting("ml")[GPU], queues.share("train")[GPU], queues.share("serve")[GPU]) == (5, 3, 2)
    cache.assume(a_pod("a", "train", 3), "n0")
    assert (queues.waiting("ml")[GPU], queues.queue("ml").request[GPU]) == (2, 5)
    cache.forget("default/a")
    queues.remove_waiting("default/a")
    assert (queues.waiting("ml")[GPU], queues.queue("ml").request[GPU]) == (2, 2)
    assert [pod.name for pod in queues.waiting_pods("serve")] == ["b"]


def test_the_capacity_leaves_out_what_other_pods_hold_and_nodes_that_take_no_pods(cache, queues):
    cache.assume(a_pod("plain", count=3), "n0")
    cache.assume(a_pod("a", "train", 2), "n1")
    cache.set_node(parse_node(make_node("n1", allocatable={GPU: "8"}, unschedulable=True)))
    tainted = make_node("n2", allocatable={GPU: "8"}, taints=[make_taint("node.kubernetes.io/not-ready")])
    cache.set_node(parse_node(tainted))
    dedicated = make_node("n4", allocatable={GPU: "8"}, taints=[make_taint("nvidia.com/gpu")])
    cache.set_node(parse_node(dedicated))
    assert queues.capacity() == {GPU: 5 + 2 + 0 + 8 + 8}


def test_a_bad_edit_leaves_the_tree_as_it_was(queues):
    queues.set(QueueRules("ml", "train"))
    assert queues.path("train") == ["train", "ml"]
    assert str(queues.problems["ml"]) == "SchedulingQueue ml: spec.parent: queue 'train' is below this queue"
    queues.set(QueueRules("ml", quotas=gpus(guarantee=1)))
    queues.set(QueueRules("train", "ml", quotas=gpus(guarantee=2)))
    assert "guaranteed 2, more than the 1" in str(queues.problems["ml"])
    queues.set(QueueRules("ml", quotas=gpus(limit=1)))
    assert not queues.problems
    queues.remove("ml")
    assert queues.path("train") == ["train", "ml"]
    assert queues.problems.keys() == {"train", "serve"}


def test_a_queue_below_a_deleted_one_is_not_in_the_tree_after_a_restart(queues):
    train = queues.get("train")
    restarted = queues_of(Cache())
    restarted.remember(train)
    restarted.set(train)
    assert not restarted.names()
    assert restarted.bounds.of(a_pod("a", "train")).message.startswith("queue train is invalid: ")


def test_without_queues_nothing_is_observed(cache, queues):
    cache.assume(a_pod("a", "train", 4), "n0")
    for name in ("ml", "train", "serve"):
        queues.remove(name)
    assert not queues.active
    assert queues.bounds.of(a_pod("b", "train", 8)) is None
    queues.set(QueueRules("train"))
    assert queues.usage("train") == {}
    queues.set(QueueRules("train", quotas=gpus(limit=1)))
    assert queues.usage("train") == {GPU: 4}


def test_what_a_queue_does_not_lend_stays_free_for_it(cache):
    queues = queues_of(cache)
    queues.set(QueueRules("team", quotas=gpus(guarantee=10), lending={GPU: 4}))
    queues.set(QueueRules("ml"))
    queues.set(QueueRules("train", "ml", quotas=gpus(limit=30)))
    queues.set(QueueRules("serve", "ml", quotas=gpus(guarantee=2), lending={GPU: 0}))
    for number in range(3):
        cache.assume(a_pod(f"a{number}", "train", 8), f"n{number}")
    assert queues.bounds.of(a_pod("b", "train")).message == (
        "all queues hold 24 of 32 nvidia.com/gpu, and 8 are kept for queues that do not lend them"
    )
    assert queues.bounds.of(a_pod("b", "serve", 2)) is None
    assert queues.bounds.of(a_pod("b", "team", 6)) is None
    cache.assume(a_pod("c", "team", 4), "n3")
    assert queues.bounds.of(a_pod("b", "team", 3)).held == 28
    cache.assume(a_pod("d", "team", 2), "n3")
    assert queues.bounds.of(a_pod("b", "serve", 2)) is None
    assert queues.bounds.of(a_pod("b", "train")).held == 30
    cache.remove_pod("default/a0")
    assert queues.bounds.of(a_pod("b", "train", 8)) is None
    assert queues.bounds.of(a_pod("b", "train", 9)) is not None


def test_beside_what_is_kept_a_pod_leaves_what_is_promised_to_nominated_pods(cache, queues):
    queues.set(QueueRules("serve", "ml", quotas=gpus(guarantee=3), lending={GPU: 0}))
    cache.nominator.add(nominated := a_pod("a", "train"), "n0")
    assert queues.bounds.of(a_pod("b", "train", 3)).message == (
        "ml holds 0 of 6 nvidia.com/gpu, and 3 are kept for queues that do not lend them, 1 more is promised to pods that "
        "are nominated to nodes"
    )
    assert queues.bounds.of(nominated) is None
    assert queues.bounds.of(a_pod("b", "train", 2)) is None
    assert queues.bounds.of(replace(a_pod("c", "train", 3), priority=1)) is None


def test_a_limit_above_counts_what_is_kept_below_it(cache, queues):
    queues.set(QueueRules("serve", "ml", quotas=gpus(guarantee=3), lending={GPU: 1}))
    cache.assume(a_pod("a", "train", 4), "n0")
    assert queues.bounds.of(a_pod("b", "train")).message == (
        "ml holds 4 of 6 nvidia.com/gpu, and 2 are kept for queues that do not lend them"
    )
    assert queues.bounds.of(a_pod("b", "serve", 2)) is None


def test_a_queue_whose_status_alone_has_changed_changes_nothing(queues):
    def red():
        return QueueRules("red", namespaces=parse_label_selector({"matchLabels": {"team": "red"}}, ""))

    queues.set(red())
    before = queues.changes
    queues.set(red())
    assert queues.changes == before
    queues.set(QueueRules("red", namespaces=parse_label_selector({"matchLabels": {"team": "blue"}}, "")))
    assert queues.changes == before + 1


def test_pods_on_a_deleted_node_count_until_they_are_deleted(cache, queues):
    cache.assume(a_pod("a", "train", 2), "n0")
    placed = cache.nodes["n0"].node
    cache.remove_node("n0")
    assert dict(queues.usage("train")) == {GPU: 2}
    assert not queues.placed_pods("train")
    cache.set_node(placed)
    assert len(queues.placed_pods("train")) == 1
    assert dict(queues.usage("train")) == {GPU: 2}
    cache.remove_node("n0")
    cache.set_pod(a_pod("b", "train", 1).on("n0"))
    assert dict(queues.usage("train")) == {GPU: 3}
    cache.remove_pod("default/a")
    cache.remove_pod("default/b")
    assert dict(queues.usage("train")) == {}


class TestLeastImportant:
    def test_low_priorities_then_single_pods_then_young_ones_come_first(self, cache, queues):
        def runs(name, start, priority=0, group=""):
            spec = {**in_group(group), "priority": priority} if group else {"priority": priority}
            raw = make_pod(name, labels={QUEUE_LABEL: "train"}, node="n0", spec=spec)
            cache.set_pod(replace(parse_pod(raw), start_time=start))

        runs("old", 10.0)
        runs("young", 20.0)
        runs("high", 30.0, priority=1)
        runs("grouped", 40.0, group="g")
        cache.assume(a_pod("starting", "train"), "n0")
        cache.set_pod(replace(a_pod("starting", "train").on("n0"), start_time=15.0))
        assert [pod.name for pod in queues.placed_pods("train")] == ["young", "starting", "old", "grouped", "high"]
        cache.remove_pod("default/starting")
        cache.remove_pod("default/old")
        assert [pod.name for pod in queues.placed_pods("train")] == ["young", "grouped", "high"]
        assert queues.placed_pods("train")[0].start_time == 20.0


class TestDueClaims:
    def test_all_queues_get_their_turn_while_others_come_and_go(self, cache):
        queues = queues_of(cache)
        names = [f"q{number:02}" for number in range(70)]
        for name in names:
            queues.set(QueueRules(name, quotas=gpus(guarantee=1)))
            queues.add_waiting(a_pod(name, name))
        asked = set()
        for turn in range(4):
            asked.update(queues.turns.due_claims())
            extra = a_pod(f"extra{turn}", names[turn], namespace="other")
            queues.add_waiting(extra)
            queues.remove_waiting(f"default/{names[30 + turn]}")
        assert asked >= {f"default/{name}" for name in names} - {f"default/{names[30 + turn]}" for turn in range(4)}

    def test_all_pods_of_a_queue_get_their_turn_while_others_come_and_go(self, cache, queues):
        for number in range(5):
            queues.add_waiting(a_pod(f"a{number}", "train"))
        asked = []
        for turn in range(5):
            asked += queues.turns.due_claims()
            if turn % 2:
                queues.remove_waiting("default/extra")
            else:
                queues.add_waiting(a_pod("extra", "train"))
        assert {*asked} >= {f"default/a{number}" for number in range(5)}


def test_guarantees_of_children_above_the_parents_are_written_as_kubernetes_does(queues):
    queues.set(QueueRules("parent", quotas={"cpu": Quota(guarantee=1500)}))
    queues.set(QueueRules("child", "parent", quotas={"cpu": Quota(guarantee=5000)}))
    text = "the queues right below are guaranteed 5, more than the 1500m of this queue"
    assert queues.problems["parent"].problem == text


@pytest.mark.parametrize(
    ("parent", "rival", "told"),
    [
        pytest.param({}, {}, "guarantee: the queues right below are guaranteed 6, more than the 0", id="no guarantee"),
        pytest.param({}, {"guarantee": 8, "weight": 0}, "guarantee: ", id="another one is guaranteed"),
        pytest.param({"limit": 4}, {}, "limit: the queues right below are guaranteed 6, more than this limit of 4"),
        pytest.param({"limit": 4}, None, "limit: ", id="a limit, alone"),
        pytest.param({"weight": 0}, None, "guarantee: ", id="alone without a weight"),
        pytest.param({"guarantee": 6}, {}, "", id="guaranteed"),
        pytest.param({}, None, "", id="alone"),
        pytest.param({}, {"weight": 0}, "", id="another one has no part in what is left"),
        pytest.param({}, {"limit": 0}, "", id="another one may have none of it"),
        pytest.param({}, {"priority": 99}, "", id="another one comes later"),
    ],
)
@pytest.mark.parametrize("levels", [1, 3])
def test_guarantees_that_the_parent_does_not_cover_are_a_warning(parent, rival, told, levels):
    """Told if, and only if, a rival leaves less to the child than it is guaranteed. `levels`: queues alone above it."""

    def spec(name, above, amounts):
        amounts = dict(amounts)
        return QueueRules(name, above, amounts.pop("priority", 100), gpus(**amounts))

    specs = [spec("parent-0", "", parent)]
    specs += [QueueRules(f"parent-{level}", f"parent-{level - 1}") for level in range(1, levels)]
    specs.append(spec("child", specs[-1].name, {"guarantee": 6}))
    if rival is not None:
        specs.append(spec("rival", "", rival))
    made = Cache()
    made.set_node(parse_node(make_node("n", allocatable={GPU: "10"})))
    declared = queues_of(made)
    for each in specs:
        declared.set(each)
    for name in ("child", "rival"):
        declared.add_waiting(a_pod(name, name, 100))
    problem = warnings(declared, f"parent-{levels - 1}").get("GuaranteesNotCovered")
    assert (problem is not None) == (declared.share("child")[GPU] < 6) == bool(told)
    if problem is not None and levels == 1:
        assert told in f"{problem}"
    assert not declared.problems
    assert "GuaranteesNotCovered" not in warnings(declared, "child")


class TestFirmPods:
    """Pods of priority 100 and above are never evicted, so they stay within guarantees: 4 of ml, 3 of train, 0 of
    serve.
    """

    @pytest.fixture(autouse=True)
    def _firm(self, queues):
        queues.set(QueueRules("train", "ml", quotas=gpus(guarantee=3), firm_priority=100))
        queues.set(QueueRules("serve", "ml", quotas=gpus(), firm_priority=100))
        queues.set(QueueRules("web", "ml", quotas={"cpu": Quota()}, firm_priority=100))

    @staticmethod
    def firm(name, queue, count=1):
        return replace(a_pod(name, queue, count), priority=100)

    def test_they_wait_at_the_guarantee_of_their_queue_and_others_do_not(self, cache, queues):
        cache.assume(self.firm("a", "train", 3), "n0")
        assert queues.bounds.of(self.firm("b", "train")).message == (
            "train is guaranteed 3 nvidia.com/gpu, of which pods that are never evicted hold 3, and the pod, which is one"
            " of these, requests 1"
        )
        assert queues.bounds.of(replace(a_pod("b", "train"), priority=99)) is None
        assert queues.bounds.of(self.firm("b", "serve")).limit == 0

    def test_they_wait_at_the_guarantee_of_a_queue_above(self, cache, queues):
        cache.assume(self.firm("a", "web", 2), "n0")
        found = queues.bounds.of(self.firm("b", "train", 3))
        assert (found.queue, found.held, found.limit) == ("ml", 2, 4)
        assert queues.bounds.of(self.firm("b", "train", 2)) is None

    def test_which_pods_are_firm_changes_with_the_queue(self, cache, queues):
        cache.assume(replace(a_pod("a", "train", 3), priority=50), "n0")
        assert queues.bounds.of(self.firm("b", "train")) is None
        queues.set(QueueRules("train", "ml", quotas=gpus(guarantee=3), firm_priority=50))
        assert queues.bounds.of(self.firm("b", "train")) is not None
        cache.forget("default/a")
        assert queues.bounds.of(self.firm("b", "train", 3)) is None
        queues.set(QueueRules("train", "ml", quotas=gpus(guarantee=3)))
        assert queues.bounds.of(self.firm("b", "train", 4)) is None

    def test_those_of_queues_below_are_firm_too_at_the_lowest_priority(self, cache, queues):
        queues.set(QueueRules("a", "ml", quotas=gpus(guarantee=1)))
        queues.set(QueueRules("b", "a", quotas=gpus(guarantee=1)))
        own = replace(a_pod("own", "b"), priority=50)
        cache.assume(own, "n0")
        assert not queues.is_firm(own)
        queues.set(QueueRules("ml", quotas=gpus(guarantee=4), firm_priority=50))
        assert [dict(queues.queue(name).firm) for name in ("b", "a", "ml")] == [{GPU: 1}] * 3
        assert queues.is_firm(own)
        assert queues.is_firm(replace(a_pod("c", "train"), priority=50)), "train says 100"
        assert "b is guaranteed 1" in queues.bounds.of(replace(a_pod("c", "b"), priority=50)).message
        queues.set(QueueRules("a", quotas=gpus(guarantee=1)))
        assert dict(queues.queue("b").firm) == {}
        assert not queues.is_firm(own)
        queues.set(QueueRules("a", "ml", quotas=gpus(guarantee=1)))
        assert dict(queues.queue("ml").firm) == {GPU: 1}

    @staticmethod
    def grouped(name, queue, count, priority=0):
        made = make_pod(name, labels={QUEUE_LABEL: queue}, requests={GPU: str(count)}, priority=priority)
        made["metadata"]["annotations"] = {"pod-group-name": "gang"}
        return parse_pod(made)

    @staticmethod
    def group(cache, **spec):
        cache.store.set(KAI_KIND, {"metadata": {"name": "gang", "namespace": "default"}, "spec": spec})

    @pytest.mark.parametrize("queue", ["train", "lends"])
    def test_a_group_that_is_not_preemptible_makes_its_pods_firm_at_any_priority(self, cache, queues, queue):
        queues.set(QueueRules("lends", "ml", quotas=gpus(guarantee=3)))
        self.group(cache, preemptibility="non-preemptible")
        cache.assume(self.grouped("a", queue, 2), "n0")
        assert dict(queues.queue(queue).firm) == dict(queues.queue("ml").firm) == {GPU: 2}
        assert queues.is_firm(self.grouped("a", queue, 2))
        assert "is guaranteed 3 nvidia.com/gpu" in queues.bounds.of(self.grouped("b", queue, 2)).message
        assert queues.bounds.of(self.grouped("b", queue, 1)) is None
        assert queues.bounds.of(a_pod("c", queue, 4)) is None

    def test_a_group_that_is_preemptible_makes_its_pods_go_at_any_priority(self, cache, queues):
        self.group(cache, preemptibility="preemptible")
        cache.assume(self.grouped("a", "train", 4, priority=1000), "n0")
        assert dict(queues.queue("train").firm) == {}
        assert not queues.is_firm(self.grouped("a", "train", 4, priority=1000))
        assert queues.bounds.of(self.firm("b", "train", 2)) is None

    def test_pods_become_firm_when_their_group_says_so_and_stop_when_it_says_nothing(self, cache, queues):
        cache.assume(self.grouped("a", "train", 2), "n0")
        assert dict(queues.queue("train").firm) == {}
        self.group(cache, preemptibility="non-preemptible")
        assert dict(queues.queue("train").firm) == dict(queues.queue("ml").firm) == {GPU: 2}
        self.group(cache)
        assert dict(queues.queue("train").firm) == dict(queues.queue("ml").firm) == {}
        self.group(cache, preemptibility="non-preemptible")
        cache.store.remove(KAI_KIND, "gang", "default")
        cache.forget("default/a")
        assert dict(queues.queue("train").firm) == dict(queues.queue("ml").firm) == {}
        assert queues.bounds.of(self.firm("b", "train", 3)) is None

    def test_a_group_that_comes_after_its_pods_has_only_these_counted_again(self, cache, queues):
        for number in range(20):
            cache.assume(a_pod(f"other{number}", "serve"), f"n{number % 4}")
        cache.assume(self.grouped("a", "", 2), "n0")
        cache.groups.add_waiting(self.grouped("b", "", 3))
        assert dict(queues.usage("train")) == dict(queues.waiting("train")) == {}
        with mock.patch.object(Membership, "of", autospec=True, side_effect=Membership.of) as of:
            self.group(cache, queue="train")
            assert (dict(queues.usage("train")), dict(queues.waiting("train"))) == ({GPU: 2}, {GPU: 3})
        assert {call.args[1].name for call in of.call_args_list} == {"a", "b"}


class TestBoundsOfGangs:
    """A gang of three pods of two GPUs each is above the limit of its queue."""

    def member(self, number, count=2, queue="train", **status):
        raw = make_pod(f"m{number}", labels={QUEUE_LABEL: queue}, requests={GPU: str(count)}, spec=in_group())
        return parse_pod({**raw, "status": status})

    @pytest.fixture
    def groups(self, cache, queues):
        cache.groups.serve(WORKLOAD_API)
        cache.set_object(KIND, make_pod_group(min_count=3))
        for number in range(3):
            cache.groups.add_waiting(self.member(number))
        return cache.groups

    def bounds(self, queues, groups):
        turns = queues.turns
        found = [turns.bound_of(pod) for pod in groups.members(groups.key_of(self.member(0))).unplaced()]
        assert turns.take_changed_bounds() == set()
        return found

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(
                lambda self, cache: cache.groups.add_waiting(self.member(0, count=1)), id="a member requests less"
            ),
            pytest.param(
                lambda self, cache: cache.groups.add_waiting(self.member(0, queue="serve")), id="one has another queue"
            ),
            pytest.param(lambda self, cache: cache.groups.add_waiting(self.member(3, count=1)), id="one more"),
            pytest.param(lambda self, cache: cache.groups.remove_waiting("default/m0"), id="one fewer"),
            pytest.param(lambda self, cache: cache.assume(self.member(0), "n0"), id="one starts"),
            pytest.param(lambda self, cache: cache.set_object(KIND, make_pod_group(min_count=2)), id="a lower minimum"),
            pytest.param(lambda self, cache: cache.set_object(KIND, make_pod_group(min_count=None)), id="no gang"),
            pytest.param(lambda self, cache: cache.nominator.add(self.member(0), "n0"), id="one is nominated"),
            pytest.param(
                lambda self, cache: cache.groups.add_waiting(self.member(0, nominatedNodeName="n0")),
                id="one says that it is nominated",
            ),
        ],
    )
    def test_what_changes_them_has_them_asked_again_of_all_members(self, cache, queues, groups, change):
        before = self.bounds(queues, groups)
        assert {bound.requested for _, bound in before} == {6}
        change(self, cache)
        waiting = {pod.uid for pod in groups.members(groups.key_of(self.member(0))).unplaced()}
        assert waiting <= queues.turns.take_changed_bounds()
        assert self.bounds(queues, groups)[:2] != before[:2]

    @pytest.mark.parametrize(("needed", "least"), [(1, 1), (2, 2), (3, 4), (4, 6), (5, 9), (6, 12)])
    def test_those_of_its_members_count_that_request_least(self, queues, needed, least):
        pods = [self.member(number, count) for number, count in enumerate((3, 1, 2, 3, 1, 2))]
        bound = queues.bounds.together(pods, needed)
        limit = queues.queue("train").spec.quotas[GPU].limit
        assert (0 if bound is None else bound.requested) == (least if least > limit else 0)

    def test_a_nomination_that_ends_has_them_asked_again(self, cache, queues, groups):
        cache.nominator.add(self.member(0), "n0")
        queues.turns.take_changed_bounds()
        assert self.bounds(queues, groups) == [None] * 3
        cache.nominator.remove("default/m0")
        assert len(queues.turns.take_changed_bounds()) == 3
        assert None not in self.bounds(queues, groups)

    def test_what_is_said_of_members_leaves_them_as_they_are(self, cache, queues, groups):
        before = self.bounds(queues, groups)
        for number in range(3):
            groups.add_waiting(self.member(number, conditions=[{"type": "PodScheduled", "status": "False"}]))
        cache.set_object(KIND, {**make_pod_group(min_count=3), "status": {"conditions": []}})
        with mock.patch.object(Bounds, "together", autospec=True) as asked:
            assert self.bounds(queues, groups) == before
        assert not asked.called

    def test_nothing_is_kept_of_gangs_that_are_gone(self, cache, queues, groups):
        self.bounds(queues, groups)
        for number in range(3):
            groups.remove_waiting(f"default/m{number}")
        assert queues.turns.bound_of(self.member(0)) is None
        assert (queues.bounds_of_gangs, queues.turns.take_changed_bounds()) == ({}, set())
