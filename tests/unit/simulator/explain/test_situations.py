"""Thirty situations, and variants of them: the true cause comes first, and each proposed change, applied, places the
pod.
"""

import pytest

from podwright.simulator.explain.results import PodState
from support.explain.kit import apply
from support.explain.named_causes import NAMED
from support.explain.objects import cluster, full, node, waiting
from support.explain.queue_situations import QUEUE_SITUATIONS
from support.explain.situations import SITUATIONS
from support.explain.variants import VARIANTS

EACH = [pytest.param(each, id=each.id) for each in (*SITUATIONS, *VARIANTS, *NAMED, *QUEUE_SITUATIONS)]


@pytest.mark.parametrize("situation", EACH)
def test_the_true_cause_comes_first(situation):
    found = situation.explained()
    assert found.cause.reason == situation.reason, found.causes
    assert situation.says in found.cause.text


@pytest.mark.parametrize("situation", EACH)
def test_the_changes_that_help_are_proposed(situation):
    texts = [change.text for change in situation.explained().changes]
    missing = [wanted for wanted in situation.helps if not any(wanted in text for text in texts)]
    assert not missing, texts
    assert bool(texts) == bool(situation.helps), texts


@pytest.mark.parametrize("situation", EACH)
def test_each_proposed_change_places_the_pod(situation):
    for change in situation.explained().changes:
        cluster, pod = apply(change, situation.cluster, situation.pod)
        after = cluster.explain(pod, changes=False)
        if change.after_preemption:
            assert after.preemption.node == change.node, change
        else:
            assert after.state is PodState.FITS, (change, after.causes)


def test_where_nothing_helps_the_explanation_says_what_was_tried():
    (note,) = cluster([node("one")], [full("a", "one")]).explain(waiting(requests={"example.com/tpu": "1"})).notes
    assert note.startswith("nothing found that helps; tried: move pods from node one to others")
    assert "one more node like one" in note


def test_a_pod_on_a_node_that_never_was_says_so():
    found = cluster([node("one")]).explain(waiting(spec={"nodeName": "oen"}))
    assert (found.state, found.cause.reason) == (PodState.PLACED, "NodeMissing")
    assert "its spec names node oen, which does not exist: no scheduler tries the pod" in found.cause.text
    assert found.cause.text.endswith("did you mean 'one'?")
