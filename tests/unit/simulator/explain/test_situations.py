"""Thirty situations, and variants of them: the true cause comes first, and each proposed change, applied, places the pod."""

import pytest

from podwright.simulator.explain.results import State
from support.explain.kit import apply
from support.explain.situations import SITUATIONS
from support.explain.variants import VARIANTS

EACH = [pytest.param(each, id=each.id) for each in (*SITUATIONS, *VARIANTS)]


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
            assert after.state is State.FITS, (change, after.causes)
