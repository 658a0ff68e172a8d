import numpy as np

from podwright.core.devices.measures import Fit
from podwright.core.devices.node_fits import SPARE_COMBINATIONS, NodeFits

MEMORY = ("gpu.example.com", "memory")
CORES = ("gpu.example.com", "cores")
SPEED = ("nic.example.com", "speed")


def fit(*, opens=False, left=0.0, utilization=0.0, **amounts):
    known = {"memory": MEMORY, "cores": CORES, "speed": SPEED}
    return Fit(tuple(sorted((known[key], value) for key, value in amounts.items())), opens, left, utilization)


def best_fit(*fits):
    """The scores of nodes that would give this; None: a node that cannot serve the claims."""
    found = NodeFits("BestFit")
    found.grow(len(fits))
    for slot, each in enumerate(fits):
        if each is not None:
            found.note(slot, each)
    fitting = np.array([each is not None for each in fits])
    return found.scores(np.flatnonzero(fitting), fitting).tolist()


def test_smaller_devices_score_better_than_fuller_nodes():
    large, middle, small = best_fit(fit(memory=80, utilization=1.0), fit(memory=40, utilization=0.5), fit(memory=10))
    assert small > middle > large


def test_one_size_leaves_all_scores_to_the_rest():
    assert best_fit(fit(memory=80, utilization=0.2), fit(memory=80, utilization=0.8)) == [60, 90]


def test_a_board_that_is_open_scores_better_than_a_fuller_node():
    opened, new = best_fit(fit(memory=10, left=0.75), fit(memory=10, opens=True, utilization=1.0))
    assert opened > new


def test_the_largest_share_of_a_capacity_is_the_size():
    """The first device has more of both than the third; the second has the most cores."""
    first, second, third = best_fit(fit(memory=80, cores=1), fit(memory=10, cores=8), fit(memory=20, cores=2))
    assert third > first == second


def test_the_devices_of_each_driver_count_alike():
    a, b = best_fit(fit(memory=80, speed=100), fit(memory=40, speed=400))
    assert a > b
    a, b = best_fit(fit(memory=80, speed=400), fit(memory=40, speed=400))
    assert a < b


def test_nodes_that_cannot_serve_the_claims_change_nothing():
    assert best_fit(fit(memory=80), None, fit(memory=80)) == best_fit(fit(memory=80), fit(memory=80))


def test_devices_without_capacities_are_the_smallest():
    none, some = best_fit(fit(), fit(memory=1))
    assert none > some


def test_amounts_that_no_node_gives_any_more_are_forgotten():
    found = NodeFits("BestFit")
    found.grow(4)
    for memory in range(1000):
        found.note(memory % 4, fit(memory=memory))
        assert len(found) <= 2 * 4 + SPARE_COMBINATIONS + 1
    everyone = np.ones(4, np.bool_)
    assert found.scores(np.arange(4), everyone).tolist() == [50, 50, 50, 50], "they hardly differ"
    found.note(0, fit(memory=1))
    first, *others = found.scores(np.arange(4), everyone).tolist()
    assert all(first > other for other in others)
