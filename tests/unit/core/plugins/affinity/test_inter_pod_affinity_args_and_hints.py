"""The arguments and queueing hints of InterPodAffinity."""

import pytest

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.framework.cluster_events import Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from support.plugins.kit import build, make_cache, pending
from support.plugins.pod_affinity import NODES, away, near, node, running, term


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(ArgsError) as caught:
        decode_args(InterPodAffinityArgs, {"hardPodAffinityWeight": weight}, "args")
    problem = f"Invalid value: {weight}: not in valid range [0, 100]"
    assert caught.value.problems == (("args.hardPodAffinityWeight", problem),)


@pytest.mark.parametrize(
    "spec, before, after, hint",
    [
        pytest.param(near(term()), None, running("o", "n"), Hint.QUEUE, id="a matching pod came"),
        pytest.param(near(term()), None, running("o", "n", "y"), Hint.SKIP, id="another pod came"),
        pytest.param(near(term()), None, running("o", ""), Hint.SKIP, id="a pod without a node"),
        pytest.param(near(term()), running("o", "n", "y"), running("o", "n"), Hint.QUEUE, id="a pod started to match"),
        pytest.param(near(term()), running("o", "n"), running("o", "n"), Hint.SKIP, id="a pod matched before, too"),
        pytest.param(away(term()), running("o", "n"), running("o", "n", "y"), Hint.QUEUE, id="a pod ceased to match"),
        pytest.param(away(term()), running("o", "n"), None, Hint.QUEUE, id="a pod that it avoids left"),
        pytest.param(away(term()), running("o", "n", "y"), None, Hint.SKIP, id="another pod left"),
        pytest.param({}, running("o", "n", "y", spec=away(term())), None, Hint.QUEUE, id="a pod that avoids it left"),
        pytest.param(away(term()), None, running("o", "n"), Hint.SKIP, id="a pod that it avoids came"),
    ],
)
def test_hint_on_assigned_pods(spec, before, after, hint):
    plugin = build(InterPodAffinity, make_cache(NODES))
    pods = [None if raw is None else parse_pod(raw) for raw in (before, after)]
    assert plugin.hints()[0].function(pending(labels={"app": "x"}, spec=spec), *pods) is hint


def test_a_new_label_of_the_pod_itself_always_requeues_it():
    assert build(InterPodAffinity, make_cache(NODES)).hints()[1].function is None


@pytest.mark.parametrize(
    "spec, before, after, hint",
    [
        pytest.param(near(term()), None, node("n", "a"), Hint.QUEUE, id="affinity: a node with the key was added"),
        pytest.param(near(term()), None, node("n"), Hint.SKIP, id="affinity: a node without the key was added"),
        pytest.param(near(term()), node("n"), node("n", "a"), Hint.QUEUE, id="affinity: a node got the key"),
        pytest.param(
            near(term()), node("n", "a"), node("n", "b"), Hint.QUEUE, id="affinity: a node changed its domain"
        ),
        pytest.param(near(term()), node("n", "a"), node("n", "a"), Hint.SKIP, id="affinity: a node kept its domain"),
        pytest.param(near(term()), node("n", "a"), node("n"), Hint.SKIP, id="affinity: a node lost the key"),
        pytest.param(away(term()), None, node("n"), Hint.QUEUE, id="anti-affinity: a node was added"),
        pytest.param(away(term()), node("n", "a"), node("n"), Hint.QUEUE, id="anti-affinity: a node lost the key"),
        pytest.param(
            away(term()), node("n", "a"), node("n", "b"), Hint.QUEUE, id="anti-affinity: a node changed its domain"
        ),
        pytest.param(away(term()), node("n"), node("n", "a"), Hint.SKIP, id="anti-affinity: a node got the key"),
        pytest.param({}, None, node("n", "a"), Hint.SKIP, id="no terms: a node was added"),
    ],
)
def test_hint_on_nodes(spec, before, after, hint):
    plugin = build(InterPodAffinity, make_cache(NODES))
    nodes = [None if raw is None else parse_node(raw) for raw in (before, after)]
    assert plugin.hints()[2].function(pending(spec=spec), *nodes) is hint
