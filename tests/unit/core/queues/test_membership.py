"""Pods count in the queue that they name only if their namespace may use it, and new labels move no running pod."""

from dataclasses import replace

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import QUEUE_ANNOTATION, parse_pod
from podwright.core.objects.selectors import parse_label_selector
from podwright.core.queues.queues import QUEUE_LABEL, USER_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import make_node, make_pod

GPU = "nvidia.com/gpu"
TEAM_RED = parse_label_selector({"matchLabels": {"team": "red"}}, "")


def label_namespace(cache, name, **labels):
    cache.set_object("Namespace", {"metadata": {"name": name, "labels": labels}})


@pytest.fixture
def cache():
    made = Cache()
    for name in ("n0", "n1"):
        made.set_node(parse_node(make_node(name, allocatable={GPU: "4"})))
    label_namespace(made, "red", team="red")
    return made


@pytest.fixture
def queues(cache):
    made = queues_of(cache)
    made.set(QueueRules("red", namespaces=TEAM_RED, quotas={GPU: Quota(limit=4)}))
    made.set(QueueRules("blue", quotas={GPU: Quota()}))
    return made


def a_pod(name, queue="red", namespace="stranger", user=""):
    labels = {**({QUEUE_LABEL: queue} if queue else {}), **({USER_LABEL: user} if user else {})}
    return parse_pod(make_pod(name, namespace=namespace, labels=labels, requests={GPU: "1"}))


def shares(queues):
    return {name: dict(queues.share(name)).get(GPU, 0) for name in ("red", "blue")}


def test_waiting_pods_of_a_namespace_that_may_not_use_the_queue_change_no_share(cache, queues):
    for number in range(8):
        queues.add_waiting(a_pod(f"blue{number}", "blue"))
    before = shares(queues)
    for number in range(20):
        queues.add_waiting(a_pod(f"stranger{number}"))
    stranger = a_pod("stranger0")
    assert shares(queues) == before == {"red": 0, "blue": 8}
    assert queues.bounds.of(stranger).message == (
        "namespace stranger may not use queue red (named by metadata.labels[podwright.dev/queue]):"
        " spec.namespaceSelector of queue red does not match the namespace's labels"
    )
    assert (queues.queue_of(stranger), queues.turns.turn_path(stranger)) == ("", ())
    assert queues.names_queue(stranger)


def test_a_refusal_names_the_label_of_the_namespace_that_names_the_queue(cache, queues):
    label_namespace(cache, "team", **{QUEUE_LABEL: "gone"})
    expected = "queue gone does not exist (named by metadata.labels[podwright.dev/queue] of namespace team)"
    assert queues.bounds.of(a_pod("a", "", "team")).message == expected


def test_a_running_pod_of_such_a_namespace_fills_no_quota(cache, queues):
    for number in range(4):
        cache.set_pod(a_pod(f"stranger{number}").on("n0"))
    assert queues.usage("red") == {}
    assert queues.bounds.of(a_pod("own", namespace="red")) is None
    assert queues.capacity() == {GPU: 4}


def test_a_namespace_may_use_a_queue_only_if_all_above_it_admit_it(cache, queues):
    label_namespace(cache, "both", team="red", tier="gold")
    gold = parse_label_selector({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, "")
    queues.set(QueueRules("middle", "red"))
    queues.set(QueueRules("leaf", "middle", namespaces=gold, quotas={GPU: Quota()}))
    pods = {name: a_pod(f"of-{name}", "leaf", name) for name in ("stranger", "red", "both")}
    for pod in pods.values():
        queues.add_waiting(pod)

    def usable():
        return {name for name, pod in pods.items() if queues.queue_of(pod) and queues.is_usable_in("leaf", name)}

    def refusal(name):
        return queues.bounds.of(pods[name]).message

    assert usable() == {"both"}
    words = " (named by metadata.labels[podwright.dev/queue]): spec.namespaceSelector of queue {} does not match the namespace's labels"
    assert refusal("red") == "namespace red may not use queue leaf" + words.format("leaf")
    queues.set(QueueRules("leaf", "middle", quotas={GPU: Quota()}))
    assert usable() == {"red", "both"}
    assert refusal("stranger") == "namespace stranger may not use queue red, which is above queue leaf" + words.format(
        "red"
    )
    assert queues.waiting("red") == {GPU: 2}
    queues.set(QueueRules("red", quotas={GPU: Quota(limit=4)}))
    assert usable() == {*pods}
    queues.set(QueueRules("blue", namespaces=gold, quotas={GPU: Quota()}))
    queues.set(QueueRules("middle", "blue"))
    assert usable() == {"both"}
    assert refusal("red") == "namespace red may not use queue blue, which is above queue leaf" + words.format("blue")
    queues.set(QueueRules("middle"))
    assert usable() == {*pods}


@pytest.mark.parametrize("before, after", [("blue", "red"), ("red", "blue"), ("", "blue"), ("blue", "")])
def test_a_new_label_moves_no_running_pod(cache, queues, before, after):
    running = a_pod("a", before, "red").on("n0")
    cache.set_pod(running)
    usage = {name: dict(queues.usage(name)) for name in ("red", "blue")}
    relabelled = replace(running, labels=a_pod("a", after).labels)
    cache.set_pod(relabelled)
    assert {name: dict(queues.usage(name)) for name in ("red", "blue")} == usage
    compact_all()
    with CacheTransaction(cache) as transaction:
        transaction.remove([relabelled])
        assert not any(queues.usage(name) for name in usage)
    assert {name: dict(queues.usage(name)) for name in usage} == usage
    node = cache.nodes["n0"].node
    cache.remove_node("n0")
    cache.set_node(node)
    assert {name: dict(queues.usage(name)) for name in usage} == usage
    cache.remove_pod(running.uid)
    assert not any(queues.usage(name) for name in usage)


KEYS = ("kai.scheduler/queue", QUEUE_ANNOTATION)


def named(name, annotations=None, **labels):
    return parse_pod(make_pod(name, labels=labels, requests={GPU: "1"}, metadata={"annotations": annotations or {}}))


def test_labels_and_annotations_of_other_apis_count_while_they_are_in_use(cache, queues):
    labelled = named("a", **{KEYS[0]: "blue"})
    annotated = named("b", {QUEUE_ANNOTATION: "blue"})
    both = named("c", {QUEUE_ANNOTATION: "red"}, **{KEYS[0]: "blue"})
    ours = named("d", **{KEYS[0]: "red", QUEUE_LABEL: "blue"})
    queues.pending = lambda: [labelled]
    queues.add_waiting(labelled)
    cache.set_pod(annotated.on("n0"))
    assert (queues.waiting("blue"), queues.usage("blue")) == ({}, {})
    assert [queues.queue_of(pod) for pod in (labelled, annotated, both, ours)] == ["", "", "", "blue"]
    queues.name_by(KEYS)
    assert (queues.waiting("blue"), queues.usage("blue")) == ({GPU: 1}, {GPU: 1})
    assert [queues.queue_of(pod) for pod in (labelled, annotated, both, ours)] == ["blue"] * 4
    assert [queues.source_of(pod) for pod in (labelled, annotated)] == ["label", "annotation"]
    assert [queues.membership.naming(pod) for pod in (labelled, annotated)] == [
        "metadata.labels[kai.scheduler/queue]",
        f"metadata.annotations[{QUEUE_ANNOTATION}]",
    ]
    queues.name_by(())
    assert (queues.waiting("blue"), queues.usage("blue")) == ({}, {})


def test_a_new_annotation_moves_no_running_pod(cache, queues):
    queues.name_by(KEYS)
    running = named("a", {QUEUE_ANNOTATION: "blue"}).on("n0")
    cache.set_pod(running)
    cache.set_pod(replace(running, queue="other"))
    assert queues.usage("blue") == {GPU: 1}


@pytest.mark.parametrize("value", ["blue/", 3, "x" * 10_000])
def test_an_annotation_that_names_no_queue_harms_nothing(queues, value):
    queues.name_by(KEYS)
    pod = named("a", {QUEUE_ANNOTATION: value})
    assert queues.queue_of(pod) == {"blue/": "blue", 3: ""}.get(value, "x" * 253 + "…")


def test_a_pod_that_lost_its_node_belongs_to_the_queue_of_its_new_label(cache, queues):
    cache.assume(a_pod("a", "blue", "red"), "n0")
    cache.forget("red/a")
    queues.add_waiting(a_pod("a", "red", "red"))
    cache.assume(a_pod("a", "red", "red"), "n0")
    assert (queues.usage("red"), queues.usage("blue")) == ({GPU: 1}, {})


def test_pods_join_and_leave_a_queue_when_their_namespace_or_the_queue_changes(cache, queues):
    waiting = a_pod("waiting")
    queues.pending = lambda: [waiting]
    queues.add_waiting(waiting)
    cache.set_pod(a_pod("running").on("n0"))
    label_namespace(cache, "stranger", team="red")
    assert (queues.usage("red"), queues.waiting("red")) == ({GPU: 1}, {GPU: 1})
    label_namespace(cache, "stranger", team="green")
    assert (queues.usage("red"), queues.waiting("red")) == ({}, {})
    queues.set(QueueRules("red", quotas={GPU: Quota(limit=4)}))
    assert (queues.usage("red"), queues.waiting("red")) == ({GPU: 1}, {GPU: 1})
    queues.set(QueueRules("red", quotas={GPU: Quota(limit=4)}, namespaces=TEAM_RED))
    assert (queues.usage("red"), queues.waiting("red")) == ({}, {})
    queues.remove("red")
    assert (
        queues.bounds.of(waiting).message == "queue red does not exist (named by metadata.labels[podwright.dev/queue])"
    )
    queues.set(QueueRules("red", quotas={GPU: Quota(limit=4)}))
    assert (queues.usage("red"), queues.waiting("red")) == ({GPU: 1}, {GPU: 1})


class TestUsers:
    """In queue blue, a user may have two GPUs."""

    @pytest.fixture(autouse=True)
    def _limits(self, queues):
        queues.set(QueueRules("blue", quotas={GPU: Quota()}, user_limits={GPU: 2}))

    def test_one_user_waits_at_the_limit_and_others_do_not(self, cache, queues):
        for name in "ab":
            cache.assume(a_pod(name, "blue", user="eve"), "n0")
        found = queues.bounds.of(a_pod("c", "blue", user="eve"))
        assert (found.message, found.held, found.limit) == ("user eve holds 2 of 2 nvidia.com/gpu in blue", 2, 2)
        assert queues.bounds.of(a_pod("c", "blue", user="bob")) is None
        assert queues.bounds.of(a_pod("c", "blue")) is None
        assert queues.bounds.of(a_pod("c", "red", "red", user="eve")) is None
        cache.forget("stranger/a")
        assert queues.bounds.of(a_pod("c", "blue", user="eve")) is None

    def test_the_pods_of_queues_below_count_together(self, cache, queues):
        for name, parent in (("middle", "blue"), ("one", "middle"), ("two", "blue")):
            queues.set(QueueRules(name, parent, user_limits={GPU: 1} if name == "one" else {}))
        assert queues.bounds.of(a_pod("a", "one", user="eve")) is None
        cache.assume(a_pod("a", "one", user="eve"), "n0")
        assert queues.bounds.of(a_pod("b", "one", user="eve")).message == "user eve holds 1 of 1 nvidia.com/gpu in one"
        assert queues.bounds.of(a_pod("b", "two", user="eve")) is None
        tried = a_pod("b", "two", user="eve")
        queues.add_waiting(tried)
        queues.turns.try_again(tried)
        queues.set(QueueRules("one", "middle"))
        third = a_pod("c", "one", user="eve")
        assert queues.bounds.of(third) is None
        assert not queues.turns.admits(third)
        cache.assume(tried, "n0")
        found = queues.bounds.of(third)
        assert (found.queue, found.message) == ("blue", "user eve holds 2 of 2 nvidia.com/gpu in blue")
        assert queues.bounds.of(a_pod("c", "one", user="bob")) is None
        queues.set(QueueRules("blue", quotas={GPU: Quota()}))
        assert queues.bounds.of(third) is None

    @pytest.mark.parametrize("user", ["", "bob"])
    def test_a_new_label_gives_no_running_pod_to_another_user(self, cache, queues, user):
        for name in "ab":
            cache.set_pod(a_pod(name, "blue", user="eve").on("n0"))
            cache.set_pod(a_pod(name, "blue", user=user).on("n0"))
        assert queues.bounds.of(a_pod("c", "blue", user="eve")) is not None
        assert queues.bounds.of(a_pod("c", "blue", user="bob")) is None
        for name in "ab":
            cache.remove_pod(f"stranger/{name}")
        assert queues.bounds.of(a_pod("c", "blue", user="eve")) is None

    def test_a_larger_limit_counts_at_once(self, cache, queues):
        for name in "ab":
            cache.assume(a_pod(name, "blue", user="eve"), "n0")
        queues.set(QueueRules("blue", quotas={GPU: Quota()}, user_limits={GPU: 3}))
        assert queues.bounds.of(a_pod("c", "blue", user="eve")) is None
