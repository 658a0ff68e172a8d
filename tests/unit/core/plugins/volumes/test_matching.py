"""Plans are shared by nodes that do not differ in what matters, and storage capacities are found by the labels that
they require.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState
from podwright.core.objects.quantity import round_up
from podwright.core.objects.selectors import Requirement
from podwright.core.objects.volumes import parse_claim, parse_storage_capacity, parse_volume
from podwright.core.plugins.volumes.matching import Capacities, UnboundClaims
from podwright.core.plugins.volumes.mentioned_values import MentionedValues
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.costs.call_counts import calls_of
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import asking, cluster, make_capacity, make_claim, make_class, make_driver, make_volume

HOST = "kubernetes.io/hostname"
KEYS, VALUES = ["a", "b"], ["1", "2", "3"]
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([*VALUES, "other", "another"]))
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(KEYS),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
topologies = st.none() | st.builds(
    lambda own, more: {"matchLabels": own, "matchExpressions": more},
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1),
    st.lists(expressions, max_size=2),
)
capacities = st.lists(
    st.builds(
        lambda topology, size: parse_storage_capacity(
            {
                "metadata": {"name": "c", "namespace": "d"},
                "storageClassName": "x",
                "nodeTopology": topology,
                "capacity": size,
            }
        ),
        topologies,
        st.sampled_from(["1", "5", "9", None]),
    ),
    max_size=8,
)


@given(capacities, labels, st.integers(1, 10))
def test_the_first_capacity_that_suffices_is_found(given_capacities, node_labels, size):
    first = next(
        (
            capacity
            for capacity in given_capacities
            if capacity.limit is not None and round_up(capacity.limit) >= size and capacity.nodes.matches(node_labels)
        ),
        None,
    )
    assert Capacities(given_capacities).first(size, node_labels) is first


requirements = st.lists(
    st.one_of(
        st.builds(
            lambda key, operator, values: Requirement(key, operator, frozenset(values)),
            st.sampled_from(KEYS),
            st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
            st.sets(st.sampled_from(VALUES), min_size=1),
        ),
        st.builds(
            lambda key, bound: Requirement(key, "Gt", frozenset(), bound), st.sampled_from(KEYS), st.integers(0, 3)
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(requirements, labels, labels)
def test_labels_with_equal_signatures_meet_the_same_requirements(wanted, one, other):
    mentioned = MentionedValues()
    mentioned.add(wanted)
    if mentioned.signature(one) == mentioned.signature(other):
        for requirement in wanted:
            assert requirement.matches(one) is requirement.matches(other)


def test_values_that_nothing_mentions_are_alike():
    mentioned = MentionedValues()
    mentioned.add([Requirement(HOST, "In", frozenset(("n1",)))])
    assert mentioned.signature({HOST: "n2"}) == mentioned.signature({HOST: "n3", "zone": "z"})
    assert len({mentioned.signature(found) for found in ({HOST: "n1"}, {HOST: "n2"}, {}, {HOST: ""})}) == 3


def on(node):
    return {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]}
    }


def planning(nodes, **objects):
    """Calls of a filter of all nodes, each with a host name of its own, for a pod with one unbound claim."""
    found = cluster(nodes=[make_node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(nodes)], **objects)
    plugin = build(VolumeBinding, found)
    pod, state = asking("claim"), CycleState()

    def search():
        assert plugin.pre_filter(state, pod) is None
        plugin.filter_all(state, pod, found.table).ok.any()

    search()  # which builds the label columns
    return calls_of(search)


def test_nodes_without_a_volume_of_their_own_share_a_plan():
    def calls(nodes):
        volumes = [make_volume("pv", spec={"nodeAffinity": on("n1")})]
        return planning(
            nodes, StorageClass=[make_class()], PersistentVolumeClaim=[make_claim()], PersistentVolume=volumes
        )

    assert calls(400) == pytest.approx(calls(100), abs=20)


@pytest.mark.parametrize("alike", [True, False], ids=["of one size", "of different sizes"])
@pytest.mark.parametrize("local", [True, False], ids=["each on a node of its own", "for all nodes"])
def test_the_cost_of_many_claims_is_linear_in_claims_and_volumes(alike, local):
    def calls(size):
        nodes = [make_node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(20)]
        claims = [make_claim(f"c{i}", size="1Gi" if alike else str(1000 + i)) for i in range(size)]
        volumes = [make_volume(f"pv{i}", spec={"nodeAffinity": on(f"n{i % 20}")} if local else {}) for i in range(size)]
        objects = {"StorageClass": [make_class()], "PersistentVolumeClaim": claims, "PersistentVolume": volumes}
        plugin = build(VolumeBinding, cluster(nodes, **objects))
        pod, state = asking(*(f"c{i}" for i in range(size))), CycleState()

        def search():
            assert plugin.pre_filter(state, pod) is None
            return plugin.filter_all(state, pod, plugin.handle.cache.table).ok.tolist()

        assert search() == [True] * 20
        return calls_of(search)

    assert calls(200) <= 2.2 * calls(100)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["1Gi", "2Gi", "3Gi"]), st.sampled_from(["", "n1", "n2"])), max_size=6),
    st.lists(
        st.tuples(st.sampled_from(["1Gi", "2Gi", "3Gi"]), st.sampled_from([["ReadWriteOnce"], ["ReadOnlyMany"]])),
        max_size=5,
    ),
)
def test_each_claim_takes_the_smallest_volume_that_is_left(volumes, claims):
    """As one after the other would choose, the claim with the least request first."""
    store = ObjectStore()
    index = VolumeIndex(store)
    store.set("StorageClass", make_class())
    for i, (size, node) in enumerate(volumes):
        spec = {"nodeAffinity": on(node)} if node else {}
        modes = ["ReadWriteOnce", "ReadOnlyMany"]
        store.set("PersistentVolume", make_volume(f"pv{i}", size=size, modes=modes, spec=spec))
    wanted = [parse_claim(make_claim(f"c{i}", size=size, modes=modes)) for i, (size, modes) in enumerate(claims)]
    labels = {HOST: "n1"}
    plan = UnboundClaims(wanted, index, store).plan("n1", labels)
    expected: dict[str, str] = {}
    for claim in sorted(wanted, key=lambda c: c.request):
        left = [v for v in map(parse_volume, store.list("PersistentVolume")) if v.name not in expected.values()]
        fitting = [
            v for v in left if v.capacity >= claim.request and (v.affinity is None or v.affinity.matches(labels))
        ]
        if fitting:
            expected[claim.name] = min(fitting, key=lambda v: v.capacity).name
    assert {binding.claim.name: binding.volume.name for binding in plan.bindings} == expected
    assert {p.claim.name for p in plan.provisions} == {c.name for c in wanted} - expected.keys()


def test_a_capacity_for_each_node_does_not_make_the_search_quadratic():
    def calls(nodes):
        driver = make_driver(storageCapacity=True)
        found = [
            {**make_capacity(f"c{i}", capacity="10Gi"), "nodeTopology": {"matchLabels": {HOST: f"n{i}"}}}
            for i in range(nodes)
        ]
        return planning(
            nodes,
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim()],
            CSIDriver=[driver],
            CSIStorageCapacity=found,
        )

    assert calls(200) <= 2.2 * calls(100)
