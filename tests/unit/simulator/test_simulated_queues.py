"""Queues of teams in snapshots and dumps: they bind the decisions of simulations as they bind the operator's."""

import pytest

from podwright.api.kai_queue import KAI_LABEL
from podwright.core.framework.features import Features
from podwright.core.objects.pod import QUEUE_ANNOTATION, parse_pod
from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API
from podwright.core.plugins import PLUGINS
from podwright.core.queues.queues import QUEUE_LABEL, USER_LABEL
from podwright.simulator.evaluations.cases import run_case
from podwright.simulator.evaluations.dump import evaluate_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.hypotheses.hypothesis import Hypothesis, HypothesisError
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.queue_rows import rows_of
from podwright.simulator.redaction import redacted
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, ReplayStream
from podwright.simulator.simulation import simulate, simulate_each_node
from podwright.simulator.snapshot import Snapshot, read_snapshot, write_snapshot
from support.objects.builders import make_policy
from support.objects.queues import queue
from support.simulator.kit import ZONE, copy_of, item, loaded, node, pod


def of(name, queue_name, on="", **more):
    return pod(name, on=on, labels={QUEUE_LABEL: queue_name}, **more)


def limited(name="ml", limit="2", **spec):
    return queue(name, resources={"cpu": {"limit": limit}}, **spec)


def placed(result):
    return sorted(each.pod.partition("/")[2] for each in result.landed)


def messages(result):
    return {each.pod.partition("/")[2]: each.message for each in result.pending}


# What is held


@pytest.mark.parametrize(
    ("said", "of_all", "held"),
    [
        pytest.param({"gatherAfter": "5m"}, 0.0, True, id="its queue says when"),
        pytest.param({"gatherAfter": "0s"}, 300.0, False, id="its queue says never"),
        pytest.param({}, 300.0, True, id="the option says when"),
        pytest.param({}, 0.0, False, id="nobody says when"),
    ],
)
def test_room_for_a_gang_that_has_waited_for_long_is_held(said, of_all, held):
    group = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}, "spec": {"minMember": 2}}
    old = {"creationTimestamp": "2023-11-14T22:00:00Z"}
    labels = {QUEUE_LABEL: "large", GROUP_LABEL: "g"}
    gang = [pod(f"g{i}", cpu="4", labels=labels, metadata=old) for i in range(2)]
    large = queue("large", resources={"cpu": {"guarantee": "8"}}, **said)
    small = queue("small", resources={"cpu": {}}, reclaimMinRuntime="24h")
    runs = of("runs", "small", on="a", cpu="4", status={"startTime": "2023-11-14T22:00:00Z"})
    cluster = loaded(
        node("a"),
        node("b"),
        large,
        small,
        item("PodGroup", group, f"{PLUGINS_API}/v1alpha1"),
        *gang,
        runs,
        of("new", "small"),
        gather_after=of_all,
    )
    before = copy_of(cluster)
    assert placed(simulate(cluster, Hypothesis())) == ([] if held else ["new"])
    assert copy_of(cluster) == before
    assert len(cluster.cache.reservations) == 0
    assert placed(simulate(cluster, Hypothesis(drain=["b"]))) == []


# What is read


def test_a_limit_forbids_in_a_simulation_what_nodes_have_room_for():
    cluster = loaded(node("a"), limited(), of("runs", "ml", on="a"), of("one", "ml"), of("two", "ml"), pod("free"))
    result = simulate(cluster, Hypothesis())
    assert placed(result) == ["free", "one"]
    assert messages(result) == {
        "two": "0/1 nodes are available: ml holds 2 of 2 cpu. preemption: No preemption victims found for incoming pod"
    }


def test_a_queue_that_a_namespace_names_counts_too():
    named = item("Namespace", {"metadata": {"name": "default", "labels": {QUEUE_LABEL: "ml"}}})
    cluster = loaded(node("a"), limited(limit="1"), named, pod("one"), pod("two"))
    assert len(simulate(cluster, Hypothesis()).landed) == 1


def test_an_invalid_queue_is_named_and_the_last_valid_version_counts():
    bad = {**limited(limit="many"), "status": {"lastAccepted": {"generation": 1, "spec": limited(limit="1")["spec"]}}}
    cluster = loaded(node("a"), bad, queue("lost", parent="nowhere"), of("one", "ml"), of("two", "ml"))
    assert "SchedulingQueue ml: spec.resources.cpu.limit" in cluster.problems[0]
    assert cluster.problems[1] == "SchedulingQueue lost: spec.parent: queue 'nowhere' does not exist"
    assert len(simulate(cluster, Hypothesis()).landed) == 1


def test_pods_of_a_queue_that_was_never_valid_wait_unless_the_hypothesis_mends_it():
    cluster = loaded(node("a"), limited(limit="many"), of("one", "ml"))
    before = copy_of(cluster)
    assert placed(simulate(cluster, Hypothesis(objects=[limited(limit="1")]))) == ["one"]
    assert copy_of(cluster) == before
    message = messages(simulate(cluster, Hypothesis()))["one"]
    assert "queue ml is invalid: SchedulingQueue ml: spec.resources.cpu.limit: 'many' is not a quantity" in message


def test_a_kind_of_this_name_in_another_group_is_left_out():
    cluster = loaded(node("a"), {**limited(limit="0"), "apiVersion": "example.com/v1"}, of("one", "ml"))
    assert cluster.ignored == {"SchedulingQueue": 1}
    assert placed(simulate(cluster, Hypothesis())) == ["one"]


def test_pods_wait_in_their_queues_in_the_order_in_which_they_were_created():
    times = {"young": "2026-01-02T00:00:00Z", "old": "2026-01-01T00:00:00Z"}
    made = [of(name, "ml", metadata={"creationTimestamp": time}) for name, time in times.items()]
    cluster = loaded(node("a"), limited(), *made)
    assert [each.name for each in cluster.queues.waiting_pods("ml")] == ["old", "young"]


def test_a_snapshot_keeps_queues_whole():
    raw = {**limited(), "status": {"lastAccepted": {"generation": 1, "spec": {}}, "summary": "cpu 1 of 2"}}
    kept = redacted("SchedulingQueue", raw)
    assert (kept["spec"], kept["status"]) == (raw["spec"], raw["status"])


@pytest.mark.parametrize(
    "named", [of("one", "ml"), item("Namespace", {"metadata": {"name": "x", "labels": {QUEUE_LABEL: "ml"}}})]
)
def test_a_dump_lacks_queues_only_if_something_names_one(named, tmp_path):
    def missing(*objects):
        path = tmp_path / "dump.json"
        write_snapshot(Snapshot(objects=objects), str(path))
        return "SchedulingQueue" in read_snapshot([str(path)]).missing

    assert missing(node("a"), named)
    assert not missing(node("a"), named, limited())
    assert not missing(node("a"), pod("one"))


# One pod on a dump, and cases


def answered(*items, asked):
    return evaluate_pod(Snapshot(objects=items), asked, LoadOptions(Features(), PLUGINS))


def test_a_pod_on_a_dump_is_refused_by_the_bound_of_its_queue():
    answer = answered(node("a"), limited(limit="1"), of("runs", "ml", on="a"), asked=of("one", "ml"))
    assert answer["prefilterStatus"]["reasons"] == ["ml holds 1 of 1 cpu"]
    assert "missingKinds" not in answer or "SchedulingQueue" not in answer["missingKinds"]


def test_a_dump_without_queues_says_that_a_pod_names_one():
    assert "SchedulingQueue" in answered(node("a"), asked=of("one", "ml"))["missingKinds"]
    assert "SchedulingQueue" not in answered(node("a"), asked=pod("one"))["missingKinds"]


def test_queues_of_a_dump_that_are_not_accepted_are_named():
    answer = answered(node("a"), limited(limit="x"), queue("lost", parent="gone"), asked=pod("one"))
    assert [each["name"] for each in answer["queuesNotAccepted"]] == ["lost", "ml"]
    assert "limit" in answer["queuesNotAccepted"][1]["message"]
    assert answer["best"] == ["a"]


def test_pods_that_wait_in_a_dump_count_for_shares():
    """Without them, `b` would have no share, and the pod would take what belongs to it."""
    queues = (queue("a", resources={"cpu": {}}), queue("b", resources={"cpu": {}}))
    full = [of(f"b{i}", "b", on="n") for i in range(3)]
    hungry = [of(f"waits{i}", "a") for i in range(4)]
    alone = answered(node("n"), *queues, *full, of("c", "", on="n"), asked=of("one", "a"))
    assert alone["preemption"]["nominatedNode"] == "n"
    fair = answered(node("n"), *queues, *full[:2], *[of(f"a{i}", "a", on="n") for i in range(2)], *hungry, asked=of("one", "a"))  # fmt: skip
    assert not fair["preemption"]["nominatedNode"]


def test_a_case_may_have_queues():
    case = {"id": "x", "nodes": [node("a")], "schedulingQueues": [limited(limit="0")], "pod": of("one", "ml")}
    assert run_case(case)["expect"]["prefilterStatus"]["reasons"] == ["ml holds 0 of 0 cpu"]


# Hypotheses


def test_a_raised_limit_lets_more_pods_start():
    cluster = loaded(node("a"), limited(limit="1"), *[of(f"p{i}", "ml") for i in range(3)])
    assert len(simulate(cluster, Hypothesis()).landed) == 1
    assert len(simulate(cluster, Hypothesis(set_fields=["queue/ml/cpu/limit=2"])).landed) == 2
    assert len(simulate(cluster, Hypothesis(set_fields=["squeue/ml/resources/cpu/limit="])).landed) == 3
    assert simulate(cluster, Hypothesis(set_fields=["queue/ml/cpu/limit=9", "queue/ml/state=Hold"])).landed == []
    assert len(simulate(cluster, Hypothesis(objects=[limited(limit="2")])).landed) == 2


def test_each_field_of_a_queue_with_one_value_may_be_tried():
    resources = {"cpu": {"guarantee": "1"}}
    waiting = [pod(f"p{i}", labels={QUEUE_LABEL: "ml", USER_LABEL: "ann"}) for i in range(3)]
    cluster = loaded(node("a"), queue("ml", resources=resources, userLimits={"cpu": "2"}), *waiting)
    for texts, landed in (
        ([], 2),
        (["queue/ml/userLimits/cpu="], 3),
        (["queue/ml/userLimits/cpu=3"], 3),
        (["queue/ml/nonPreemptiblePriority=0"], 1),
        (["queue/ml/maxRuntime=1h", "queue/ml/gatherAfter=5m", "queue/ml/usageHalfLife=24h"], 2),
    ):
        assert len(simulate(cluster, Hypothesis(set_fields=texts)).landed) == landed, texts


def test_a_queue_below_its_share_goes_first():
    """Otherwise the older pod would take the room, and the other one would have to evict it."""
    made = {
        name: {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"} for day, name in enumerate(("old", "new"), start=1)
    }
    queues = (queue("a", resources={"cpu": {}}), queue("b", resources={"cpu": {}}))
    running = [of(f"a{i}", "a", on="n") for i in range(2)]
    cluster = loaded(node("n", cpu="3"), *queues, *running, of("old", "a", metadata=made["old"]), of("new", "b", metadata=made["new"]))  # fmt: skip
    result = simulate(cluster, Hypothesis())
    assert (placed(result), result.preempted) == (["new"], [])


def test_a_guarantee_takes_room_back():
    queues = (queue("a", resources={"cpu": {}}), queue("b", priority=50, resources={"cpu": {}}))
    cluster = loaded(node("n"), *queues, *[of(f"a{i}", "a", on="n") for i in range(4)], of("waits", "b"))
    assert simulate(cluster, Hypothesis()).preempted == []
    result = simulate(cluster, Hypothesis(set_fields=["queue/b/cpu/guarantee=1"]))
    assert placed(result) == ["waits"]
    assert len(result.preempted) == 1


def test_after_a_trial_queues_are_as_they_were():
    bad = {**limited("edited", "x"), "status": {"lastAccepted": {"spec": limited(limit="1")["spec"]}}}
    cluster = loaded(node("a"), limited(), bad, queue("lost", parent="gone"), of("runs", "ml", on="a"), of("one", "ml"))
    before = copy_of(cluster)
    more = [queue("gone"), limited("edited", "7"), limited("new", "1", parent="gone")]
    result = simulate(cluster, Hypothesis(objects=more, set_fields=["queue/ml/cpu/limit=8", "queue/ml/parent=gone"]))
    assert placed(result) == ["one"]
    assert copy_of(cluster) == before
    assert "lost" in cluster.queues.problems


def test_a_limit_in_a_flavor_may_be_tried():
    flavors = [{"name": "x", "nodeSelector": {ZONE: "a"}, "resources": {"cpu": {"limit": "1"}}}]
    in_flavor = queue("ml", flavors=flavors)
    cluster = loaded(node("a"), in_flavor, *[of(f"p{i}", "ml") for i in range(3)])
    assert len(simulate(cluster, Hypothesis()).landed) == 1
    assert len(simulate(cluster, Hypothesis(set_fields=["queue/ml/cpu@x/limit=2"])).landed) == 2
    with pytest.raises(HypothesisError, match=r"spec.flavors\[y\].nodeSelector: a value is required"):
        simulate(cluster, Hypothesis(set_fields=["queue/ml/cpu@y/limit=0"]))


def test_the_first_queue_may_come_with_a_trial():
    cluster = loaded(node("a"), of("runs", "ml", on="a"), of("one", "ml"), of("two", "ml"))
    before = copy_of(cluster)
    assert placed(simulate(cluster, Hypothesis(objects=[limited()]))) == ["one"]
    assert copy_of(cluster) == before
    assert not cluster.queues.active


def test_the_pods_of_a_drained_queue_are_evicted_within_budgets_and_wait_in_it():
    labels = {QUEUE_LABEL: "ml", "app": "db"}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    statuses = [{**ready, "startTime": f"2023-11-1{i}T00:00:00Z"} for i in range(2)]
    kept = [pod(f"db{i}", on="a", labels=labels, status=status) for i, status in enumerate(statuses)]
    selector = {"selector": {"matchLabels": {"app": "db"}}}
    budget = item("PodDisruptionBudget", {"metadata": {"name": "db", "namespace": "default"}, "spec": selector, "status": {"disruptionsAllowed": 1}}, "policy/v1")  # fmt: skip
    others = [
        of("bare", "ml", on="a", owner=""),
        of("daemon", "ml", on="a", kind="DaemonSet"),
        of("theirs", "ml", on="a", spec={"schedulerName": "other"}),
        of("elsewhere", "b", on="a"),
    ]
    cluster = loaded(node("a", cpu="8"), queue("top"), queue("ml", parent="top"), queue("b"), budget, *kept, *others)
    before = copy_of(cluster)
    result = simulate(cluster, Hypothesis(set_fields=["queue/top/state=Drain"]))
    assert messages(result).keys() == {"db1"}
    assert "queue top is in state Drain" in messages(result)["db1"]
    assert [(each.cause, each.came_from) for each in result.pending] == [("drained", "a")]
    assert result.gone == ["default/bare"]
    assert [(each.pod, each.why) for each in result.blockers] == [
        ("default/db0", "queue top is in state Drain, and a PodDisruptionBudget allows no further disruption")
    ]
    assert (result.before.pods, result.after.pods) == (6, 4)
    assert copy_of(cluster) == before
    assert simulate(cluster, Hypothesis(set_fields=["queue/top/state=Hold"])).gone == []


def test_pods_of_other_schedulers_are_not_evicted_for_those_of_queues():
    theirs = of("theirs", "b", on="a", cpu="2", spec={"schedulerName": "other"})
    pods = theirs, of("ours", "b", on="a", cpu="2"), of("new", "a", cpu="2"), of("second", "a", cpu="2")
    guaranteed = queue("a", resources={"cpu": {"guarantee": "4"}})
    result = simulate(loaded(node("a", cpu="4"), guaranteed, queue("b"), *pods), Hypothesis())
    pending = {each.pod: each.cause for each in result.pending}
    assert pending == {"default/ours": "preempted", "default/second": "pending"}


def test_queues_are_drained_once_before_each_node_is_tried():
    pods = of("drained", "ml", on="a"), of("moves", "other", on="a")
    cluster = loaded(node("a"), node("b"), queue("ml", state="Drain"), queue("other"), *pods)
    before = copy_of(cluster)
    results = [(each.node, each.moved, each.fits) for each in simulate_each_node(cluster, "drain")]
    assert results == [("a", 1, True), ("b", 0, True)]
    assert copy_of(cluster) == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("ml/limit=3", "is not of the form", id="no kind"),
        pytest.param("queue/ml", "is not of the form", id="no value"),
        pytest.param("queue/mk/state=Hold", "no valid queue 'mk'; did you mean 'ml'?", id="another name"),
        pytest.param("queue/ml/cpu/limits=3", "'limits' is not one of guarantee, limit, lendingLimit, weight", id="another field"),
        pytest.param("queue/ml/stat=Hold", "did you mean 'state'?", id="another field of the queue"),
        pytest.param("queue/ml/cpu/limit=much", "spec.resources.cpu.limit", id="no quantity"),
        pytest.param("queue/ml/parent=ml", "spec.parent: queue 'ml' is below this queue", id="a cycle"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_set_is_named(text, problem):
    cluster = loaded(node("a"), limited())
    before = copy_of(cluster)
    with pytest.raises(HypothesisError) as error:
        simulate(cluster, Hypothesis(set_fields=[text]))
    assert problem in str(error.value)
    assert copy_of(cluster) == before


# Replays


def test_a_replay_honours_limits():
    arrivals = [Arrival(0.0, parse_pod(of(f"p{i}", "ml")), 10) for i in range(3)]
    stream = ReplayStream(initial=[node("a"), limited(limit="1")], events=arrivals, start=0.0, end=100.0)
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN)])
    assert card.placed == 3
    assert card.waiting.longest == 20, "one after the other, although the node has room for all"


def test_a_replay_takes_back_for_a_pod_like_one_that_may_not():
    """Pods that differ in their queue alone do not wait for each other: one queue is owed room, the other is not."""
    queues = [queue("a", resources={"cpu": {"guarantee": "4"}}), queue("b", resources={"cpu": {}}), queue("c", resources={"cpu": {}})]  # fmt: skip
    running = [Arrival(0.0, parse_pod(of(f"c{i}", "c", cpu="2"))) for i in range(2)]
    later = [Arrival(1.0, parse_pod(of("b", "b", cpu="4"))), Arrival(2.0, parse_pod(of("a", "a", cpu="4")))]
    stream = ReplayStream(initial=[node("n"), *queues], events=[*running, *later], start=0.0, end=100.0)
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN)])
    assert card.preemptions == 2


def test_a_policy_chooses_the_queue_in_all_of_these():
    chooses = make_policy("p", queue={"name": "ml"})
    asked = of("one", "", spec={"schedulerName": "podwright"})
    assert answered(node("a"), limited(limit="0"), chooses, asked=asked)["prefilterStatus"]["reasons"] == [
        "ml holds 0 of 0 cpu"
    ]
    assert "SchedulingQueue" in answered(node("a"), chooses, asked=asked)["missingKinds"]
    cluster = loaded(node("a"), limited(limit="1"), pod("one"), pod("two"))
    before = copy_of(cluster)
    assert len(simulate(cluster, Hypothesis(policies=[chooses])).landed) == 1
    assert copy_of(cluster) == before
    assert (
        len(simulate(loaded(node("a"), limited(limit="1"), chooses, pod("one"), pod("two")), Hypothesis()).landed) == 1
    )
    both = Hypothesis(remove_policies=["p"])
    assert len(simulate(loaded(node("a"), limited(limit="1"), chooses, pod("one"), pod("two")), both).landed) == 2
    arrivals = [Arrival(0.0, parse_pod(pod(f"p{i}")), 10) for i in range(3)]
    stream = ReplayStream(initial=[node("a"), limited(limit="1")], events=arrivals, start=0.0, end=100.0)
    (card,) = replay(stream, [ReplayCandidate("p", [chooses])])
    assert card.waiting.longest == 20


# Queues of other APIs


def kai(name, limit, **spec):
    amount = {"quota": 0, "limit": limit, "overQuotaWeight": 1}
    open_ended = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": {**amount, "limit": limit * 1000}, "memory": open_ended, "gpu": open_ended}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources, **spec},
    }


def volcano(name, cpu):
    spec = {"capability": {"cpu": cpu}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def in_kai(name, queue_name):
    return pod(name, labels={KAI_LABEL: queue_name}, spec={"schedulerName": "kai-scheduler"})


def test_queues_of_kai_count_while_a_policy_serves_their_scheduler():
    serves = make_policy("kai", schedulerName="kai-scheduler")
    pods = [in_kai(f"p{i}", "team") for i in range(3)]
    cluster = loaded(node("a"), kai("team", 1), *pods)
    before = copy_of(cluster)
    result = simulate(cluster, Hypothesis())
    assert len(result.landed) == 3
    told = "the queues of KAI do not count, because no policy serves the scheduler name kai-scheduler"
    assert told in result.notes
    result = simulate(cluster, Hypothesis(policies=[serves]))
    assert len(result.landed) == 1
    assert not [note for note in result.notes if "queues" in note]
    assert "team holds 1 of 1 cpu" in next(iter(messages(result).values()))
    assert copy_of(cluster) == before
    assert len(simulate(loaded(node("a"), kai("team", 1), serves, *pods), Hypothesis()).landed) == 1


def test_a_policy_puts_pods_of_kai_that_name_no_queue_into_its_default_queue():
    serves = make_policy("kai", schedulerName="kai-scheduler", queue={"name": "default-queue"})
    pods = [pod(f"p{i}", spec={"schedulerName": "kai-scheduler"}) for i in range(2)]
    result = simulate(loaded(node("a"), kai("default-queue", 1), serves, *pods), Hypothesis())
    assert len(result.landed) == 1
    assert "default-queue holds 1 of 1 cpu" in next(iter(messages(result).values()))
    answer = answered(node("a"), kai("team", 0), serves, asked=in_kai("one", "team"))
    assert answer["prefilterStatus"]["reasons"] == ["team holds 0 of 0 cpu"]


def test_queues_of_volcano_are_below_their_root():
    served = make_policy("v", schedulerName="volcano")
    raw = pod("one", spec={"schedulerName": "volcano"}, metadata={"annotations": {QUEUE_ANNOTATION: "team"}})
    cluster = loaded(node("a"), volcano("team", "1"), served, raw)
    assert [row.name for row in rows_of(cluster.queues)] == ["root", "team"]
    assert placed(simulate(cluster, Hypothesis())) == ["one"]
    assert cluster.queues.queue_of(next(iter(cluster.pending.values()))) == "team"
    assert redacted("Pod", raw)["metadata"]["annotations"] == {QUEUE_ANNOTATION: "team"}


def served():
    names = ("kai-scheduler", "volcano")
    return [make_policy(name, schedulerName=name) for name in names]


@pytest.mark.parametrize(
    ("fields", "started"),
    [
        pytest.param([], 2, id="none"),
        pytest.param(["queue/kai/resources/cpu/limit=3000"], 4, id="of KAI"),
        pytest.param(["queue/kai/resources/cpu/limit=3000", "queue/kai/priority=2"], 4, id="two of one queue"),
        pytest.param(["queue/kai/resources/cpu/limit="], 1, id="removed"),
        pytest.param(["queue/volcano/capability/cpu=2500m"], 3, id="of Volcano"),
        pytest.param(["queue/kai/resources/cpu/limit=3000", "queue/kai/parentQueue=volcano"], 1, id="the parent"),
    ],
)
def test_fields_of_queues_of_other_apis_can_be_set(fields, started):
    pods = [in_kai(f"k{i}", "kai") for i in range(3)]
    pods += [
        pod(f"v{i}", spec={"schedulerName": "volcano"}, metadata={"annotations": {QUEUE_ANNOTATION: "volcano"}})
        for i in range(3)
    ]
    cluster = loaded(node("a"), kai("kai", 1), volcano("volcano", "1"), *served(), *pods)
    before = copy_of(cluster)
    assert len(simulate(cluster, Hypothesis(set_fields=fields)).landed) == started
    assert copy_of(cluster) == before


def test_a_queue_of_another_api_can_be_tried_while_it_counts():
    pods = [in_kai(f"k{i}", "kai") for i in range(3)]
    hypothesis = Hypothesis(objects=[kai("kai", 2)])
    assert len(simulate(loaded(node("a"), kai("kai", 1), *served(), *pods), hypothesis).landed) == 2
    with pytest.raises(HypothesisError, match="objects of kind 'Queue' cannot be tried"):
        simulate(loaded(node("a"), kai("kai", 1), *pods), hypothesis)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("queue/kai/limit=3", "'limit' is not one of parentQueue, priority", id="a field of ours"),
        pytest.param("queue/kai/resources/cpu/limit=much", "Queue kai: spec.resources.cpu", id="no number"),
        pytest.param("queue/kai/parentQueue=kai", "Queue kai: spec.parentQueue: queue 'kai' is below", id="a cycle"),
        pytest.param("queue/root/priority=3", "there is no valid queue 'root'", id="a queue without an object"),
    ],
)
def test_a_field_of_another_api_that_cannot_be_set_is_named(text, problem):
    cluster = loaded(node("a"), kai("kai", 1), volcano("volcano", "1"), *served())
    before = copy_of(cluster)
    with pytest.raises(HypothesisError, match=problem):
        simulate(cluster, Hypothesis(set_fields=[text]))
    assert copy_of(cluster) == before


def test_objects_that_are_not_the_queue_of_their_name_are_named():
    objects = (node("a"), limited("kai", "0"), limited("root", "9"), kai("kai", 1), volcano("kai", "1"), *served())
    cluster = loaded(*objects, in_kai("p", "kai"))
    problem = (
        "Queue kai: metadata.name: a SchedulingQueue of podwright.dev has this name, and counts instead of this Queue"
    )
    assert cluster.problems == [problem, problem]
    explained = explain_pod(cluster, next(iter(cluster.pending.values())), changes=False)
    assert explained.notes[-2:] == (problem, problem)


def test_a_scheduling_queue_goes_before_one_of_its_name_also_in_a_trial():
    served = make_policy("kai", schedulerName="kai-scheduler")
    cluster = loaded(node("a"), kai("team", 3), served, *[in_kai(f"p{i}", "team") for i in range(4)])
    before = copy_of(cluster)
    assert len(simulate(cluster, Hypothesis()).landed) == 3
    assert len(simulate(cluster, Hypothesis(objects=[limited("team", "1")])).landed) == 1
    assert copy_of(cluster) == before
    assert len(simulate(cluster, Hypothesis()).landed) == 3


def test_an_invalid_queue_of_kai_is_named_and_other_kinds_of_queues_are_left_out():
    bad = kai("team", 1, parentQueue=7)
    other = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "jobs"}}
    cluster = loaded(node("a"), bad, other)
    assert "Queue team: spec.parentQueue" in cluster.problems[0]
    assert cluster.ignored == {"Queue": 1}


def test_what_is_wrong_with_the_parent_of_a_queue_of_kai_is_said_in_words_of_kai():
    served = make_policy("kai", schedulerName="kai-scheduler")
    cluster = loaded(node("a"), kai("team", 1, parentQueue="gone"), served, in_kai("p", "team"))
    problem = "Queue team: spec.parentQueue: queue 'gone' does not exist"
    assert cluster.problems == [problem]
    assert f"queue team is invalid: {problem}" in messages(simulate(cluster, Hypothesis()))["p"]


def test_queues_that_cannot_be_read_are_mentioned_only_if_they_would_count():
    missing = {
        "Queue.scheduling.run.ai": "RBAC does not let you list it",
        "SchedulingQueue": "RBAC does not let you list it",
    }

    def notes(*objects):
        return load(Snapshot(objects=[node("a"), *objects], missing=missing)).missing_notes

    assert notes() == ["without SchedulingQueue: RBAC does not let you list it"]
    (note,) = notes(make_policy("kai", schedulerName="kai-scheduler"))
    assert note == "without Queue.scheduling.run.ai, SchedulingQueue: RBAC does not let you list them"
