"""Fair shares equal a slow reference in fractions, also after any changes of demand and capacity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.shares import UNBOUNDED, Claim, share_out
from podwright.core.queues.tree import QueueSpec, QueueTree, Quota
from support.queues.reference import reference

WEIGHT = st.integers(-1, 7) | st.sampled_from([0.5, 1.5, 0.3, 5e-324, 1e300])
AMOUNT = st.integers(0, 40) | st.sampled_from([997, 10**9 + 7, 2**62])


@st.composite
def claims(draw):
    bounded = AMOUNT | st.just(UNBOUNDED)
    values = draw(st.lists(st.tuples(st.sampled_from([50, 100]), bounded, WEIGHT, AMOUNT), max_size=7))
    return [Claim(f"q{i}", *value) for i, value in enumerate(values)]


@given(AMOUNT, claims())
def test_shares_are_the_weighted_max_min_of_the_definition(room, claims):
    assert share_out(room, claims) == reference(room, claims)


SPECS = [
    QueueSpec("ml", quotas={"gpu": Quota(guarantee=4, limit=12)}),
    QueueSpec("train", "ml", quotas={"gpu": Quota(weight=3)}),
    QueueSpec("serve", "ml", priority=200, quotas={"gpu": Quota(guarantee=1, limit=5)}),
    QueueSpec("night", "train"),
    QueueSpec("web", quotas={"gpu": Quota(guarantee=2, weight=0), "cpu": Quota(guarantee=UNBOUNDED)}),
]
CHANGES = st.one_of(
    st.tuples(st.sampled_from(["serve", "night", "web"]), st.sampled_from(["gpu", "cpu"]), st.integers(0, 20)),
    st.tuples(st.just(""), st.sampled_from(["gpu", "cpu"]), st.integers(0, 30)),
)


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=20))
def test_shares_after_changes_are_those_of_a_new_tree(changes):
    capacity, demand = {"gpu": 16, "cpu": 9}, {}
    tree = QueueTree(SPECS, capacity)
    for (queue, resource, amount), read in changes:
        if queue:
            tree.add_demand(queue, {resource: amount - demand.get((queue, resource), 0)})
            demand[queue, resource] = amount
        else:
            capacity = capacity | {resource: amount}
            tree.set_capacity(capacity)
        if read:
            tree.shares()
    fresh = QueueTree(SPECS, capacity)
    for (queue, resource), amount in demand.items():
        fresh.add_demand(queue, {resource: amount})
    assert tree.shares() == fresh.shares()


def test_a_queue_gets_its_guarantee_before_another_gets_more():
    tree = QueueTree([QueueSpec("a", quotas={"gpu": Quota(guarantee=6)}), QueueSpec("b")], {"gpu": 8})
    tree.add_demand("a", {"gpu": 6})
    tree.add_demand("b", {"gpu": 8})
    assert tree.share("b") == {"gpu": 2}
    tree.add_demand("a", {"gpu": -6})
    assert tree.share("b") == {"gpu": 8}


@pytest.mark.parametrize(
    ("specs", "problem"),
    [
        pytest.param([QueueSpec("a"), QueueSpec("a")], "Queue a: name: another queue", id="two queues of one name"),
        pytest.param([QueueSpec("")], "Queue : name: a value is required", id="a queue without a name"),
        pytest.param([QueueSpec("a", "b")], "Queue a: parent: queue 'b' does not exist", id="a missing parent"),
        pytest.param([QueueSpec("a", "a")], "Queue a: parent: queue 'a' is below", id="its own parent"),
        pytest.param([QueueSpec("a", "b"), QueueSpec("b", "a")], "Queue a: parent: queue 'b' is below", id="a cycle"),
    ],
)
def test_a_tree_that_is_none_is_refused_with_queue_and_field(specs, problem):
    with pytest.raises(InvalidObjectError) as error:
        QueueTree(specs, {})
    assert problem in str(error.value)


def test_a_queue_that_moves_takes_those_below_with_it():
    tree = QueueTree(
        [QueueSpec("a"), QueueSpec("b"), QueueSpec("c", "a"), QueueSpec("d", "c", quotas={"gpu": Quota()})], {}
    )

    def path():
        queue = tree.get("d")
        return [each.spec.name for each in queue.path]

    assert path() == ["d", "c", "a"]
    tree.replace(QueueSpec("c", "b"))
    assert path() == ["d", "c", "b"]
    tree.add_held("d", {"gpu": 2})
    tree.add_asked("d", {"gpu": 3})
    assert [(tree.get(name).held, tree.get(name).asked) for name in ("a", "b")] == [({}, {}), ({"gpu": 2}, {"gpu": 3})]
