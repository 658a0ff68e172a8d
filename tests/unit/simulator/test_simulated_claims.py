"""ResourceClaims in a simulation: of pods that leave, that come, and that several pods share."""

import pytest

from podwright.core.framework.features import AUTOMATIC, Features
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, parse_scale
from podwright.simulator.scheduling import Scheduling
from podwright.simulator.simulation import simulate, simulate_each_node
from podwright.simulator.trial import Trial
from support.explain.kit import GATES
from support.objects.builders import in_group, make_pod_group, make_policy
from support.objects.devices import DRIVER, allocated, exactly, make_claim
from support.simulator.claims import (
    DRA,
    EXTENDED,
    extended,
    from_template,
    gpu_class,
    gpu_node,
    shared_claim,
    sharing,
    template,
)
from support.simulator.kit import copy_of, item, loaded, pod


def everything(cluster):
    """The state that a trial may change, with the devices that count as used."""
    usage = cluster.cache.devices.claims.usage
    devices = [(DRIVER, f"n{node}", f"g{gpu}") for node in (1, 2, 3) for gpu in (0, 1)]
    return copy_of(cluster), dict(cluster.claim_templates), [usage.state_of(each) for each in devices], len(usage)


def ask(cluster, **hypothesis):
    """Where pods land, and which wait. The answer is the same again, and the cluster as it was."""
    before = everything(cluster)
    first, second = (simulate(cluster, Hypothesis(**hypothesis)).as_dict() for _ in range(2))
    assert first == second
    assert everything(cluster) == before
    return (
        {each["pod"].partition("/")[2]: each["node"] for each in first["landed"]},
        {each["pod"].partition("/")[2]: each["message"] for each in first["pending"]},
    )


@pytest.mark.parametrize("known", [True, False], ids=["template", "claim"])
@pytest.mark.parametrize("change", ["drain", "remove_nodes"])
def test_a_pod_of_a_node_that_empties_gets_a_new_claim(change, known):
    others = from_template("b", on="n2", device="g1", owner="db-1")
    objects = [*gpu_node("n1"), *gpu_node("n2", gpus=2), gpu_class(), *from_template("a", on="n1"), *others]
    cluster = loaded(*objects, *([template()] if known else []))
    assert ask(cluster, **{change: ["n1"]}) == ({"a": "n2"}, {})


def test_the_new_claim_is_as_the_template_says():
    objects = [*gpu_node("n1"), *gpu_node("n2"), *gpu_node("n3", gpus=2), gpu_class(), *from_template("a", on="n1")]
    assert ask(loaded(*objects, template(count=2)), drain=["n1"]) == ({"a": "n3"}, {})
    assert ask(loaded(*objects, template(count=3)), drain=["n1"])[1].keys() == {"a"}


def test_each_node_is_tried_with_the_claims_of_its_pods():
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), *from_template("a", on="n1"))
    before = everything(cluster)
    assert [(each.node, each.moved, len(each.pending)) for each in simulate_each_node(cluster, "drain")] == [("n1", 1, 0), ("n2", 0, 0)]  # fmt: skip
    assert everything(cluster) == before


def test_pods_that_a_workload_gets_have_claims_of_their_own():
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2", gpus=2), gpu_class(), *from_template("a", on="n1"))
    landed, waiting = ask(cluster, scale=[parse_scale("deploy/web=5")])
    assert landed == {"web-added-1": "n2", "web-added-2": "n2"}
    assert set(waiting) == {"web-added-3", "web-added-4"}
    assert all("cannot allocate all claims" in message for message in waiting.values())


def test_a_workload_that_shrinks_leaves_its_devices_to_others():
    objects = [*gpu_node("n1"), gpu_class(), *from_template("a", on="n1"), *from_template("b", owner="db-1")]
    assert ask(loaded(*objects), scale=[parse_scale("deploy/web=0")]) == ({"b": "n1"}, {})
    assert "cannot allocate" in ask(loaded(*objects), scale=[parse_scale("deploy/web=1")])[1]["b"]


def test_added_pods_get_claims_from_the_template_beside_them():
    added = pod("c", spec={"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "new"}]})
    cluster = loaded(*gpu_node("n1"), gpu_class())
    assert "ResourceClaim not created yet" in ask(cluster, pods=[added])[1]["c"]
    assert ask(cluster, pods=[added], objects=[template("new")]) == ({"c": "n1"}, {})


def test_a_shared_claim_keeps_its_devices_until_its_last_user_leaves():
    a, b = sharing("a", on="n1", owner="a-1"), sharing("b", on="n1", owner="b-1")
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), a, b, shared_claim(a, b, on="n1"), *from_template("c", owner="c-1"), *from_template("d", owner="d-1"))  # fmt: skip
    assert ask(cluster, scale=[parse_scale("rs/a-1=0")])[0].keys() == {"c"}
    landed, _ = ask(cluster, scale=[parse_scale("rs/a-1=0"), parse_scale("rs/b-1=0")])
    assert (set(landed), set(landed.values())) == ({"c", "d"}, {"n1", "n2"})


def test_all_users_of_a_shared_claim_move_together():
    a, b = sharing("a", on="n1"), sharing("b", on="n1")
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), a, b, shared_claim(a, b, on="n1"))
    assert ask(cluster, drain=["n1"]) == ({"a": "n2", "b": "n2"}, {})


def test_a_shared_claim_with_another_user_stays_where_it_is():
    agent, a = sharing("agent", on="n1", owner="agent", kind="DaemonSet"), sharing("a", on="n1")
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), agent, a, shared_claim(agent, a, on="n1"))
    landed, waiting = ask(cluster, drain=["n1"])
    assert landed == {}
    assert set(waiting) == {"a"}


def test_the_claim_for_extended_resources_leaves_with_its_pod():
    cls = gpu_class(extendedResourceName=EXTENDED)
    cluster = loaded(*gpu_node("n1"), cls, *extended("a", on="n1"), *from_template("b", owner="db-1"))
    assert ask(cluster, scale=[parse_scale("deploy/web=0")]) == ({"b": "n1"}, {})


def test_a_pod_that_moved_moves_again():
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), *gpu_node("n3"), gpu_class(), *from_template("a", on="n1"))
    before = everything(cluster)
    result = simulate(cluster, Hypothesis(drain=["n1"]), try_to_empty=3)
    assert result.emptied.together == [result.landed[0].node]
    assert everything(cluster) == before


@pytest.mark.parametrize("objects", [from_template("a"), extended("a")], ids=["template", "extended resource"])
def test_what_a_pod_got_in_a_trial_is_free_when_it_leaves(objects):
    cluster = loaded(*gpu_node("n1"), gpu_class(extendedResourceName=EXTENDED), *objects)
    before, usage = everything(cluster), cluster.cache.devices.claims.usage
    (waiting,) = cluster.pending.values()
    with Trial(cluster) as trial:
        scheduling = Scheduling(cluster, trial)
        scheduling.add(waiting)
        scheduling.settle()
        assert usage.in_use((DRIVER, "n1", "g0"))
        trial.evict([waiting])
        assert not usage.in_use((DRIVER, "n1", "g0"))
        assert [*cluster.cache.store.list("ResourceClaim")] == []
    assert everything(cluster) == before


def test_pods_that_share_a_new_claim_land_where_its_devices_are():
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), sharing("a"), sharing("b"), shared_claim())
    landed, waiting = ask(cluster)
    assert (set(landed), len(set(landed.values())), waiting) == ({"a", "b"}, 1, {})


def test_a_preemptor_gets_the_devices_of_its_victims():
    important = from_template("important", owner="top-1", priority=10)
    frees = make_policy("free", devices={"preemption": "FreeDevices"})
    cluster = loaded(*gpu_node("n1"), gpu_class(), frees, *from_template("a", on="n1"), *important)
    landed, waiting = ask(cluster)
    assert landed == {"important": "n1"}
    assert set(waiting) == {"a"}


def agent(on):
    """A DaemonSet's pod with a device of its node, as the DaemonSet controller makes it."""
    raw, claim = from_template("agent", on=on, owner="agent", kind="DaemonSet")
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    raw["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return [raw, claim]


def test_daemons_of_an_added_node_get_devices_of_it():
    cluster = loaded(*gpu_node("n1", gpus=2), gpu_class(), *agent("n1"), *(each for name in "bcd" for each in from_template(name, owner=f"{name}-1")))  # fmt: skip
    landed, waiting = ask(cluster, add_nodes=[AddedNodes(1, "n1")])
    assert sorted(landed.values()) == ["n1", "n1-added-1"], "the agents have one device of each node"
    assert len(waiting) == 1


def test_a_daemon_waits_if_the_added_node_has_no_device_for_it():
    raw, claim = agent("n1")
    cluster = loaded(*gpu_node("n1"), gpu_class(), raw, claim, template(count=2))
    landed, waiting = ask(cluster, add_nodes=[AddedNodes(1, "n1")])
    assert landed == {}
    assert waiting.keys() == {"agent-n1-added-1"}


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
def test_a_claim_of_no_use_to_a_pod_is_deallocated(grouped):
    """It was allocated on a node on which the pod cannot run."""
    claim = item("ResourceClaim", make_claim("shared", exactly(), status=allocated("g0", node="n1")), DRA)
    spec = {"nodeSelector": {"kubernetes.io/hostname": "n2"}, **(in_group("gang") if grouped else {})}
    raw = sharing("a")
    raw["spec"].update(spec)
    groups = [item("PodGroup", make_pod_group("gang", 1), "scheduling.k8s.io/v1beta1")] if grouped else []
    cluster = loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), claim, raw, *groups, features=GATES)
    assert ask(cluster) == ({"a": "n2"}, {})


@pytest.mark.parametrize("grouped", [True, False], ids=["of the group", "of each pod"])
def test_pods_of_a_group_share_the_claim_that_is_made_for_it(grouped):
    """There is one device on each of two nodes, and room for all pods on one."""
    entries = [{"name": "x", "resourceClaimTemplateName": "t"}]
    group = make_pod_group("gang", 3, **({"resourceClaims": entries} if grouped else {}))
    added = [pod(name, spec={**in_group("gang"), "resourceClaims": entries}) for name in "abc"]
    groups = [item("PodGroup", group, "scheduling.k8s.io/v1beta1")]
    cluster = loaded(
        *gpu_node("n1"),
        *gpu_node("n2"),
        gpu_class(),
        *groups,
        template(),
        features=Features(AUTOMATIC),
    )
    landed, waiting = ask(cluster, pods=added)
    assert len(set(landed.values())) == (1 if grouped else 0)
    assert len(waiting) == (0 if grouped else 3)
