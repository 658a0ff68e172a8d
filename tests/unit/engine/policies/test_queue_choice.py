"""Policies that choose the queue of their pods, by name or by an expression."""

from __future__ import annotations

from itertools import count

import orjson
import pytest

from podwright.core.objects.pod import POLICY_ANNOTATION
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.records.decision_annotation import ANNOTATION
from support.engine.kit import Rig, deciding, ours, settle

RED = {"expression": "'team-' + namespaceObject.labels.team"}


def policy(name, generation, **spec):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": name, "uid": name, "generation": generation},
        "spec": spec,
    }


class Teams:
    def __init__(self):
        self.rig = Rig()
        self.generations = count(1)
        self.engine = self.rig.engine
        self.queues = queues_of(self.engine.cache)
        self.rig.node("n")
        self.engine.objects("Namespace").put(
            {"metadata": {"name": "default", "labels": {"team": "red"}, "resourceVersion": "1"}}
        )

    def apply(self, name, **spec):
        result = self.engine.policies.apply(policy(name, next(self.generations), **spec))
        self.engine.policies_changed()
        return result

    def placed(self, name):
        uid = f"default/{name}"
        return self.engine.cache.placement(uid).pods[uid]

    def queue_of(self, name, **options):
        self.rig.pod(name, **options)
        return self.queues.queue_of(self.engine.queue.get(f"default/{name}").pod)


@pytest.fixture
async def teams():
    made = Teams()
    for name in ("team-red", "named"):
        made.queues.set(QueueRules(name, quotas={"cpu": Quota(limit=1000)}))
    return made


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        pytest.param({"name": "named"}, "named", id="a name"),
        pytest.param(RED, "team-red", id="the namespace's label"),
        pytest.param({"expression": "pod.labels.?app.orValue('')"}, "", id="an empty string is no queue"),
        pytest.param({"expression": "params.queue"}, "named", id="params"),
        pytest.param({"expression": "pod.owner.kind == '' ? 'named' : 'other'"}, "named", id="the owner"),
    ],
)
async def test_a_policy_chooses_the_queue_of_its_pods(teams, choice, expected):
    assert teams.apply("p", queue=choice, params={"queue": "named"}).accepted
    assert teams.queue_of("a") == expected
    assert teams.queue_of("b", labels={QUEUE_LABEL: "team-red"}) == "team-red", "the pod's own label goes first"


async def test_a_policy_that_comes_later_moves_its_pods_and_one_that_goes_gives_them_back(teams):
    assert teams.queue_of("a") == ""
    teams.apply("p", queue={"name": "named"})
    pod = teams.engine.queue.get("default/a").pod
    assert (teams.queues.queue_of(pod), teams.queues.source_of(pod)) == ("named", "policy")
    assert [each.name for each in teams.queues.waiting_pods("named")] == ["a"]
    teams.engine.policies.remove("p")
    teams.engine.policies_changed()
    assert teams.queues.queue_of(pod) == ""
    assert teams.queues.membership.choice_by_policy is None


async def test_pods_move_when_the_labels_of_their_namespace_change(teams):
    teams.apply("p", queue=RED)
    assert teams.queue_of("a") == "team-red"
    labels = {"team": "named"}
    teams.engine.objects("Namespace").put({"metadata": {"name": "default", "labels": labels, "resourceVersion": "2"}})
    assert teams.queues.queue_of(teams.engine.queue.get("default/a").pod) == "team-named"


async def test_a_pod_whose_expression_fails_waits_and_says_why(teams):
    teams.apply("p", queue={"expression": "pod.labels.team"})
    teams.rig.pod("a")
    async with deciding(teams.rig):
        await settle()
    assert teams.rig.placed_on("a") == ""
    [(_, verdict, _)] = teams.rig.status.written
    assert "queue (no such key: team) does not exist (named by spec.queue of SchedulerPolicy p)" in verdict.message


def holding(teams, *pods):
    """Pods of the queue `named` that run, each with what else it has, and the uids of those that are not
    preemptible.
    """
    for name, options in pods:
        policy = options.pop("policy", "")
        raw = ours(name, **{"labels": {QUEUE_LABEL: "named"}, "requests": {"cpu": "1"}, **options})
        raw["metadata"]["annotations"] = {POLICY_ANNOTATION: policy} if policy else {}
        teams.rig.confirm(raw, "n")
    assert teams.queues.usage("named")["cpu"] == 2000
    return [name for name, _ in pods if teams.queues.is_firm(teams.placed(name))]


async def test_a_policy_says_which_of_its_pods_are_never_evicted_and_these_stay_within_the_guarantee(teams):
    teams.queues.set(QueueRules("named", quotas={"cpu": Quota(guarantee=2000)}, firm_priority=100))
    assert holding(teams, ("a", {}), ("b", {"priority": 100})) == ["b"]
    assert teams.apply("p", queue={"preemptible": False}).accepted
    assert [teams.queues.is_firm(teams.placed(name)) for name in "ab"] == [True, True]
    assert teams.queues.queue("named").firm["cpu"] == 2000
    teams.rig.pod("c", labels={QUEUE_LABEL: "named"}, requests={"cpu": "1"})
    assert teams.queues.bounds.of(teams.engine.queue.get("default/c").pod).message == (
        "named is guaranteed 2 cpu, of which pods that are never evicted hold 2, and the pod, which is one of these by "
        "its policy, requests 1"
    )
    assert teams.apply("p", queue={"preemptible": True}).accepted
    assert [teams.queues.is_firm(teams.placed(name)) for name in "ab"] == [False, False]
    assert teams.queues.queue("named").firm == {}
    teams.engine.policies.remove("p")
    teams.engine.policies_changed()
    assert (teams.queues.queue("named").firm["cpu"], teams.queues.preemptible_by_policy) == (1000, None)


async def test_pods_that_a_policy_makes_not_preemptible_do_not_start_without_a_guarantee(teams):
    """Their queue has no nonPreemptiblePriority."""
    teams.apply("p", queue={"name": "named", "preemptible": False})
    teams.rig.pod("a", requests={"cpu": "1"})
    found = teams.queues.bounds.of(teams.engine.queue.get("default/a").pod)
    assert (found.kind, found.queue, found.limit) == ("guarantee", "named", 0)


@pytest.mark.parametrize(
    ("takes", "chosen"),
    [
        (
            {"match": {"podSelector": {"matchLabels": {"keep": "yes"}}}},
            {"labels": {QUEUE_LABEL: "named", "keep": "yes"}},
        ),
        ({"byName": "Required"}, {"policy": "p"}),
    ],
    ids=["a label", "the annotation that names a policy"],
)
async def test_what_a_running_pod_says_later_makes_it_neither_preemptible_nor_not(teams, takes, chosen):
    teams.queues.set(QueueRules("named", quotas={"cpu": Quota(guarantee=2000)}))
    assert teams.apply("p", queue={"preemptible": False}, **takes).accepted
    assert holding(teams, ("a", {}), ("b", {**chosen})) == ["b"]
    assert holding(teams, ("a", {**chosen}), ("b", {})) == ["b"]
    assert teams.queues.queue("named").firm["cpu"] == 1000


async def test_the_decision_names_the_queue_and_what_chose_it(teams):
    teams.apply("p", queue=RED)
    teams.rig.pod("a", requests={"cpu": "1"})
    async with deciding(teams.rig):
        await settle()
        [annotations] = teams.rig.cluster.annotations
    decision = orjson.loads(annotations[ANNOTATION])
    assert (decision["queue"], decision["queueFrom"]) == ("team-red", "policy")


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        pytest.param({}, "spec.queue: takes either a name or an expression", id="neither"),
        pytest.param({"name": "a", "expression": "'a'"}, "takes either a name or an expression", id="both"),
        pytest.param(
            {"name": "a", "expression": "'a'", "preemptible": True},
            "takes either a name or an expression",
            id="all three",
        ),
        pytest.param({"preemptible": "no"}, "spec.queue.preemptible: ", id="a word for a truth value"),
        pytest.param(
            {"expression": "1"}, "spec.queue.expression: the name of a queue must be a string, not int", id="type"
        ),
        pytest.param({"expression": "node.name"}, "cannot depend on 'node'", id="the node"),
        pytest.param({"expression": "podsOnNode('a=b') > 0 ? 'a' : 'b'"}, "cannot depend on 'node'", id="counts"),
        pytest.param({"expression": "now > now ? 'a' : 'b'"}, "cannot depend on 'now'", id="the time"),
        pytest.param({"expression": "pod.annotations['a']"}, "cannot depend on 'pod.annotations'", id="annotations"),
        pytest.param({"expression": "pod == pod ? 'a' : 'b'"}, "cannot depend on 'pod as a whole'", id="whole pod"),
        pytest.param({"expression": "pod.lables.a"}, "line 1, column", id="misspelt"),
    ],
)
async def test_a_choice_that_cannot_be_is_refused_with_its_field(teams, choice, problem):
    result = teams.apply("p", queue=choice)
    assert not result.accepted
    assert problem in result.message


async def test_a_policy_in_shadow_mode_chooses_no_queue(teams):
    assert "spec.queue: is not for mode Shadow" in teams.apply("p", mode="Shadow", queue={"name": "named"}).message
