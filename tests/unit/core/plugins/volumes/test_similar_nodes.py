"""Outcomes derived from similar nodes equal those of a plan for each node, and cost little more than one plan."""

from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState
from podwright.core.objects.volumes import parse_claim
from podwright.core.plugins.volumes.chains import Chains
from podwright.core.plugins.volumes.matching import UnboundClaims
from podwright.core.plugins.volumes.similar_nodes import FEW_VALUES
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.state.deadline import never
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.costs.call_counts import calls_of
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import (
    asking,
    cluster,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
)
from support.properties import examples

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HOSTS = [f"n{i}" for i in range(FEW_VALUES + 2)]
SIZES = [f"{size}Gi" for size in range(1, 9)]
MODES = ["ReadWriteOnce", "ReadOnlyMany"]
STATIC, DYNAMIC = "static", "std"


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def on(*expressions):
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


host_lists = st.lists(st.sampled_from(HOSTS[:3]), min_size=1, max_size=2, unique=True)
expressions = st.one_of(
    st.builds(lambda hosts: requirement(HOST, "In", *hosts), host_lists),
    st.builds(lambda hosts: requirement(HOST, "NotIn", *hosts), host_lists),
    st.builds(lambda zone: requirement(ZONE, "In", zone), st.sampled_from("ab")),
    st.sampled_from([requirement(HOST, "Exists"), requirement("other", "DoesNotExist")]),
)
affinities = st.one_of(
    st.just({}),
    st.builds(lambda found: on(*found), st.lists(expressions, min_size=1, max_size=2)),
)
volume_kinds = st.tuples(
    st.sampled_from(SIZES),
    st.sampled_from([STATIC, STATIC, DYNAMIC]),
    affinities,
    st.sampled_from([MODES, MODES[:1]]),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from([None, None, None, 0, 1, 2]),
)
claim_kinds = st.tuples(
    st.sampled_from(SIZES[:4]),
    st.sampled_from([STATIC, STATIC, STATIC, DYNAMIC]),
    st.sampled_from([MODES, MODES[:1]]),
    st.sampled_from(["", "", "x"]),
)
free = st.sampled_from(["1Gi", "5Gi", "9Gi"])
storage = st.none() | st.lists(st.tuples(free, st.sampled_from([*HOSTS[:3], ""])), max_size=4)


def many_hosts(number):
    """A volume that no claim can take, and that mentions many hosts."""
    return make_volume(f"far-{number}", size="1", storage_class=STATIC, spec=on(requirement(HOST, "NotIn", *HOSTS)))


def unbound(volumes, claims, capacities, point=never):
    store = ObjectStore()
    index = VolumeIndex(store)
    store.set("StorageClass", make_class(DYNAMIC))
    store.set("StorageClass", make_class(STATIC, provisioner="kubernetes.io/no-provisioner"))
    store.set("PersistentVolume", many_hosts(0))
    for i, (size, storage_class, affinity, modes, label, reserved) in enumerate(volumes):
        spec = dict(affinity)
        if reserved is not None:
            spec["claimRef"] = {"namespace": "default", "name": f"c{reserved}"}
        labels = {"kind": label}
        store.set(
            "PersistentVolume",
            make_volume(f"pv{i}", size=size, storage_class=storage_class, modes=modes, labels=labels, spec=spec),
        )
    if capacities is not None:
        store.set("CSIDriver", make_driver(storageCapacity=True))
        for i, (size, host) in enumerate(capacities):
            topology = {"nodeTopology": {"matchLabels": {HOST: host} if host else {}}}
            store.set("CSIStorageCapacity", {**make_capacity(f"s{i}", capacity=size), **topology})
    wanted = []
    for i, (size, storage_class, modes, label) in enumerate(claims):
        spec = {"selector": {"matchLabels": {"kind": label}}} if label else {}
        wanted.append(parse_claim(make_claim(f"c{i}", size=size, storage_class=storage_class, modes=modes, spec=spec)))
    return UnboundClaims(wanted, index, store, point)


ANY_NODE = [
    *({HOST: host, ZONE: zone} for host in HOSTS[:5] for zone in "abc"),
    {HOST: "n0", "other": "1"},
    {ZONE: "a"},
]


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(volume_kinds, min_size=4, max_size=20),
    st.lists(claim_kinds, min_size=5, max_size=10),
    storage,
)
@example(
    [(SIZES[i], STATIC, on(requirement(HOST, "NotIn", f"n{i}")), MODES, "", None) for i in range(6)],
    [(SIZES[0], STATIC, MODES, "")] * 5,
    None,
)
def test_the_outcome_is_that_of_a_plan_for_the_node(volumes, claims, capacities):
    claims_of_pod = unbound(volumes, claims, capacities)
    for labels in ANY_NODE:
        plan, outcome = claims_of_pod.plan("n", labels), claims_of_pod.outcome("n", labels)
        assert outcome.reason == plan.reason
        if not plan.reason:
            assert outcome.usage() == plan.usage()


def search_beside(volumes, claims=40, nodes=120):
    """Calls of a search for a pod with claims of many sizes, and the outcome."""
    found = cluster(
        nodes=[make_node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(nodes)],
        StorageClass=[make_class(provisioner="kubernetes.io/no-provisioner")],
        PersistentVolumeClaim=[make_claim(f"c{i}", size=str(1000 + i)) for i in range(claims)],
        PersistentVolume=volumes,
    )
    plugin = build(VolumeBinding, found)
    pod, state = asking(*(f"c{i}" for i in range(claims))), CycleState()

    def search():
        assert plugin.pre_filter(state, pod) is None
        return plugin.filter_all(state, pod, found.table).ok.tolist()

    ok = search()
    return calls_of(search), ok


def leaving_out_a_node_each(count):
    return [
        make_volume(f"pv{i}", size=str(2000 + i), spec=on(requirement(HOST, "NotIn", f"n{i}"))) for i in range(count)
    ]


@pytest.mark.parametrize("more", [0, 1, 5, 40], ids="{} volumes more than claims".format)
def test_chains_of_all_nodes_cost_a_step_for_each_claim(more):
    """Each node cannot reach one of the volumes, so all later claims choose otherwise there."""
    cost = {}
    for claims in (20, 40, 80):
        cost[claims], ok = search_beside(leaving_out_a_node_each(claims + more), claims)
        assert ok == [i >= claims + more or more > 0 for i in range(120)]
    assert cost[80] - cost[40] <= 2.5 * (cost[40] - cost[20])


def test_a_local_volume_of_each_node_costs_little_beside_volumes_for_all_nodes():
    """Each node has one volume of its own, which the first claim takes. The last claim depends on it."""

    def volumes(claims):
        local = [make_volume(f"own{i}", size="1500", spec=on(requirement(HOST, "In", f"n{i}"))) for i in range(119)]
        return [*local, *(make_volume(f"pv{i}", size=str(2000 + i)) for i in range(claims - 1))]

    cost = {}
    for claims in (20, 40, 80):
        cost[claims], ok = search_beside(volumes(claims), claims)
        assert ok == [True] * 119 + [False]
    assert cost[80] - cost[40] <= 2.5 * (cost[40] - cost[20])
    assert cost[80] <= 2 * cost[20]


LOCAL = [(SIZES[0], STATIC, on(requirement(HOST, "NotIn", f"n{i}")), MODES, "", None) for i in range(40)]
CLAIMS = [(SIZES[0], STATIC, MODES, "")] * 5


def test_an_attempt_may_pause_at_each_volume_that_it_reads():
    points = []
    unbound(LOCAL, CLAIMS, None, lambda: points.append(len(points)))
    assert len(points) == len(LOCAL) + 1


def test_only_nodes_without_a_volume_that_is_chosen_are_looked_at_anew():
    claims_of_pod = unbound(LOCAL, CLAIMS, None)
    with mock.patch.object(Chains, "change", autospec=True, side_effect=Chains.change) as changed:
        for number in range(40):
            claims_of_pod.outcome(f"n{number}", {HOST: f"n{number}"})
    assert 0 < changed.call_count <= len(CLAIMS)
