"""ResourceClaims in a replay, of pods that come, leave, are preempted, or lose their nodes."""

from podwright.core.objects.pod import parse_pod
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.simulator.replay.stream import Arrival, NodeUpdate, PodLeaves, ReplayStream, sorted_events
from support.objects.builders import make_policy
from support.objects.devices import allocated, exactly, make_claim
from support.simulator.claims import DRA, extended, from_template, gpu_class, gpu_node, shared_claim, sharing, template
from support.simulator.kit import item, pod

WANTS = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
FREES = make_policy("free", schedulerName="podwright", devices={"preemption": "FreeDevices"})


def comes(time, raw, runs_for=None, **more):
    return Arrival(time, parse_pod(raw, keep_raw=True), runs_for, **more)


def wants(time, name, runs_for=None, **more):
    return comes(time, pod(name, spec=WANTS, **more), runs_for)


def play(initial, *events, end=1000.0, policies=()):
    stream = ReplayStream(initial=initial, events=sorted_events(events), start=0.0, end=end)
    (card,) = replay(stream, [ReplayCandidate("free", policies) if policies else ReplayCandidate(BUILT_IN)])
    return card


def test_pods_take_turns_on_one_device():
    nodes = [*gpu_node("n1"), gpu_class(), template()]
    card = play(nodes, wants(0, "a", 100), wants(1, "b", 100), wants(2, "c", 100))
    assert (card.placed, card.waiting.longest) == (3, 198.0)


def test_the_device_of_a_pod_from_the_start_is_free_when_it_leaves():
    nodes = [*gpu_node("n1"), gpu_class(), *from_template("a", on="n1")]
    card = play(nodes, wants(0, "b", 10), PodLeaves(50, "default/a"))
    assert (card.placed, card.waiting.longest) == (1, 50.0), "the template is known from the claim of `a`"


def test_a_shared_claim_keeps_its_device_until_its_last_user_leaves():
    a, b = sharing("a", on="n1"), sharing("b", on="n1")
    nodes = [*gpu_node("n1"), gpu_class(), template(), a, b, shared_claim(a, b, on="n1")]
    card = play(nodes, wants(0, "c", 10), PodLeaves(30, "default/a"), PodLeaves(70, "default/b"))
    assert card.waiting.longest == 70.0


def test_the_claim_for_extended_resources_leaves_with_its_pod():
    nodes = [*gpu_node("n1"), gpu_class(extendedResourceName="example.com/gpu")]
    card = play(nodes, comes(0, *extended("a"), runs_for=40), comes(1, *extended("b"), runs_for=40))
    assert (card.placed, card.waiting.longest) == (2, 39.0)


def test_a_preemptor_gets_the_device_and_its_victim_is_created_anew_with_a_new_claim():
    nodes = [*gpu_node("n1"), gpu_class(), template()]
    card = play(nodes, wants(0, "low", 100), wants(20, "high", 50, priority=5), policies=[FREES])
    assert (card.preemptions, card.placed, card.never_placed) == (1, 2, 0)
    assert card.nodes_in_use == (20 + 50 + 100) / 1000, "the victim runs its whole time afterwards"


def test_pods_of_a_node_that_fails_get_devices_elsewhere():
    nodes = [*gpu_node("n1"), *gpu_node("n2"), gpu_class(), *from_template("a", on="n1")]
    card = play(nodes, NodeUpdate(10, "n1", None), PodLeaves(60, "default/a"), wants(20, "b", 5))
    assert card.placed == 1
    assert card.waiting.longest == 40.0, "`a` has the other device until it leaves"


def test_a_pod_that_gives_up_takes_its_claim_along():
    nodes = [*gpu_node("n1"), gpu_class(), template(count=2)]
    raw = pod("a", spec=WANTS)
    card = play(nodes, comes(0, raw, 10, gives_up_at=30))
    assert card.never_placed == 1
    assert [reason for reason in card.unplaced if "cannot allocate all claims" in reason]


def test_a_pod_without_a_template_waits_for_its_claim():
    card = play([*gpu_node("n1"), gpu_class()], wants(0, "a", 10))
    assert card.never_placed == 1
    assert [reason for reason in card.unplaced if "ResourceClaim not created yet" in reason]


def test_a_claim_of_no_use_to_a_pod_is_deallocated():
    """It was allocated on a node on which the pod cannot run any more."""
    got = allocated("g0", node="n1")
    claim = item("ResourceClaim", make_claim("shared", exactly(), status=got), DRA)
    nodes = [*gpu_node("n1"), *gpu_node("n2"), gpu_class(), claim]
    raw = sharing("a")
    raw["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    card = play(nodes, comes(0, raw, 10))
    assert card.placed == 1
