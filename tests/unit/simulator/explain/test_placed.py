import orjson
import pytest

from podwright.simulator.explain.placed import recorded_in
from podwright.simulator.explain.results import PodState
from support.explain.objects import cluster, node, waiting

DECISION = {
    "policy": "batch",
    "generation": 3,
    "node": "one",
    "nodes": 3,
    "feasible": 2,
    "score": 210,
    "runnerUp": {"node": "two", "score": 200},
    "rejected": {"TaintToleration": 1},
    "uid": "default/waiting",
    "instance": "podwright-0",
}


def on(name, decision=None, **options):
    annotations = {} if decision is None else {"podwright.dev/decision": orjson.dumps(decision).decode()}
    metadata = {"annotations": annotations}
    return waiting(requests={"cpu": "2"}, node=name, metadata=metadata, **options)


def test_a_placed_pod_shows_the_decision_of_its_annotation():
    pod = on("one", DECISION)
    found = cluster([node("one"), node("two")], [pod]).explain(pod)
    (decision,) = found.decisions
    assert found.state is PodState.PLACED
    assert (found.policy.name, found.policy.generation) == ("batch", 3)
    assert (decision.node, decision.score, decision.runner_up, decision.runner_up_score) == ("one", 210, "two", 200)
    assert decision.rejected == {"TaintToleration": 1}


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(None, id="no annotation"),
        pytest.param({**DECISION, "uid": "another"}, id="a copy of another pod's"),
        pytest.param([1], id="a list"),
    ],
)
def test_an_annotation_that_is_not_about_the_pod_says_nothing(decision):
    assert recorded_in(on("one", decision)) is None


def test_fields_of_other_types_in_the_annotation_are_left_out():
    pod = on("one", {**DECISION, "score": "high", "runnerUp": 7, "rejected": ["x"], "nodes": None})
    decision = recorded_in(pod)
    assert (decision.score, decision.runner_up, decision.rejected, decision.evaluated) == (None, "", None, 0)


def test_the_plugins_that_made_the_difference_are_named_with_their_weight():
    pod = on("one")
    found = cluster(
        [node("one", images=[{"names": ["app:latest"], "sizeBytes": 900 << 20}]), node("two")], [pod]
    ).explain(pod)
    scores = found.scores
    assert (scores.node, scores.runner_up, scores.decisive) == ("one", "two", ("ImageLocality",))
    assert scores.total - scores.runner_up_total == sum(each.difference for each in scores.plugins)
    assert found.cause.reason == "BestScore"
    assert "ImageLocality +" in found.cause.text


def test_a_node_that_would_be_better_today_is_named():
    pod = on("one")
    found = cluster(
        [node("one"), node("two", images=[{"names": ["app:latest"], "sizeBytes": 900 << 20}])], [pod]
    ).explain(pod)
    assert found.cause.reason == "AnotherIsBetterToday"
    assert found.scores.runner_up == "two"


def test_the_scores_are_those_without_the_pod_on_its_node():
    pod = on("one", labels={"app": "web"})
    both = cluster([node("one"), node("two")], [pod]).explain(pod)
    assert both.cause.reason == "Tie"


def test_a_pod_that_would_not_fit_today_says_why():
    pod = on("one")
    found = cluster([node("one", taints=[{"key": "k", "effect": "NoSchedule"}]), node("two")], [pod]).explain(pod)
    assert found.cause.reason == "WouldNotFitToday"
    assert "untolerated taint" in found.cause.text


def test_a_pod_of_another_scheduler_is_not_ours():
    pod = on("one", spec={"schedulerName": "other"})
    assert cluster([node("one")], [pod]).explain(pod).cause.reason == "PlacedByAnother"
