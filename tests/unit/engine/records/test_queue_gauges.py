"""The gauges about queues: what they say, and that their labels are bounded, however many queues and resources there
are.
"""

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.engine.records import queue_metrics
from podwright.engine.records.families import Gauge
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.queue_gauges import AT_ONCE, MOST_QUEUES, MOST_RESOURCES, compute_queue_gauges
from support.objects.builders import make_node, make_pod


class Gauges:
    def __init__(self):
        self.cache = Cache()
        self.queues = queues_of(self.cache)
        self.metrics = Metrics(lambda: 0.0)
        compute_queue_gauges(self.metrics, self.queues)
        self.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "1000", "pods": "10000"})))

    def runs(self, name, queue, cpu="1"):
        raw = make_pod(name, labels={"podwright.dev/queue": queue}, requests={"cpu": cpu}, node="n")
        self.cache.set_pod(parse_pod(raw))

    def waits(self, name, queue, cpu="1"):
        raw = make_pod(name, labels={"podwright.dev/queue": queue}, requests={"cpu": cpu})
        self.cache.groups.add_waiting(parse_pod(raw))

    def read(self):
        """By the name of the gauge without its beginning: its numbers."""
        if self.queues.active:
            self.queues.shared_out()
        names = {each.name for each in vars(queue_metrics).values() if isinstance(each, Gauge)}
        return {
            family.name.removeprefix("podwright_queue_"): {
                tuple(sample.labels.values()): sample.value for sample in family.samples
            }
            for family in self.metrics.collect()
            if family.name in names
        }


@pytest.fixture
def gauges():
    return Gauges()


def test_without_queues_there_are_no_series(gauges):
    gauges.runs("p", "a")
    assert not any(gauges.read().values())


def test_amounts_are_in_cores_and_a_queue_without_a_limit_has_none(gauges):
    gauges.queues.set(QueueRules("ml", quotas={"cpu": Quota(guarantee=2000, limit=8000)}))
    gauges.queues.set(QueueRules("a", parent="ml", quotas={"cpu": Quota()}))
    gauges.runs("p", "a", "1500m")
    gauges.waits("q", "a")
    gauges.waits("r", "a")
    assert gauges.read() == {
        "podwright_queues": {},
        "allocated": {("ml", "cpu"): 1.5, ("a", "cpu"): 1.5},
        "share": {("ml", "cpu"): 3.5, ("a", "cpu"): 3.5},
        "guarantee": {("ml", "cpu"): 2, ("a", "cpu"): 0},
        "limit": {("ml", "cpu"): 8},
        "resource_hours": {},
        "pending_pods": {("a",): 2},
        "owed": {("a",): 1},
    }


def test_hours_are_those_of_all_pods_of_a_queue_and_of_those_below(gauges):
    gauges.queues.set(QueueRules("ml", quotas={"cpu": Quota()}))
    gauges.queues.set(QueueRules("a", parent="ml", quotas={"cpu": Quota()}))
    gauges.runs("p", "a", "1500m")
    for step in range(9):
        [*gauges.queues.sample_usage(1_700_000_000.0 + 900 * step)]
    assert gauges.read()["resource_hours"] == {("ml", "cpu"): 3, ("a", "cpu"): 3}


def test_a_queue_that_has_nothing_has_a_series_so_that_alerts_see_it(gauges):
    gauges.queues.set(QueueRules("a", quotas={"cpu": Quota(guarantee=1000)}))
    assert gauges.read()["allocated"] == {("a", "cpu"): 0}


def test_queues_beyond_the_most_are_summed_up_without_counting_twice(gauges):
    gauges.queues.set(QueueRules("top", quotas={"cpu": Quota()}))
    many = MOST_QUEUES + 2 * AT_ONCE
    for index in range(many):
        gauges.queues.set(QueueRules(f"q{index:04}", parent="top", quotas={"cpu": Quota(guarantee=1000)}))
    last = f"q{many - 1:04}"
    gauges.queues.set(QueueRules("leaf", parent=last, quotas={"cpu": Quota()}))
    gauges.runs("one", "leaf")
    gauges.runs("two", f"q{many - 2:04}")
    gauges.runs("three", "q0000")
    gauges.waits("four", "leaf")
    found = gauges.read()
    assert all(len({labels[0] for labels in found[name]}) == MOST_QUEUES + 1 for name in ("allocated", "share"))
    assert (found["allocated"]["top", "cpu"], found["allocated"]["other", "cpu"]) == (3, 2)
    assert found["allocated"]["q0000", "cpu"] == 1
    assert found["pending_pods"][("other",)] == 1
    assert ("top",) not in found["pending_pods"]


def test_resources_that_most_queues_name_have_series(gauges):
    for index in range(MOST_RESOURCES + 5):
        quotas = {f"example.com/r{index:02}": Quota(limit=1), "cpu": Quota(limit=1000)}
        gauges.queues.set(QueueRules(f"q{index}", quotas=quotas))
    resources = {labels[1] for labels in gauges.read()["limit"]}
    assert len(resources) == MOST_RESOURCES
    assert "cpu" in resources


def test_a_queue_that_goes_while_the_gauge_is_read_is_left_out(gauges):
    for index in range(AT_ONCE + 1):
        gauges.queues.set(QueueRules(f"q{index:03}", quotas={"cpu": Quota()}))
    parts = gauges.metrics.snapshots()
    seen = 0
    for _ in parts:
        seen += 1
        if seen == 3:
            gauges.queues.remove(f"q{AT_ONCE:03}")
    assert seen > 3


def test_a_queue_is_owed_room_only_for_a_whole_pod_within_its_share(gauges):
    """Three queues share 8 CPUs. Each has 2 of its share of 2.6, and its pods want one CPU: nothing is owed."""
    gauges.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "8", "pods": "100"})))
    for name in ("a", "b", "c"):
        gauges.queues.set(QueueRules(name, quotas={"cpu": Quota()}))
        for index in range(2):
            gauges.runs(f"{name}{index}", name)
        for index in range(4):
            gauges.waits(f"{name}-waits-{index}", name)
    assert gauges.read()["owed"] == {("a",): 0, ("b",): 0, ("c",): 0}
    gauges.cache.remove_pod("default/a0")
    assert gauges.read()["owed"] == {("a",): 1, ("b",): 0, ("c",): 0}
    gauges.queues.set(QueueRules("a", quotas={"cpu": Quota(guarantee=8000)}, state="Hold"))
    assert gauges.read()["owed"]["a",] == 0, "its pods wait because it is shut"


def test_what_a_queue_above_is_entitled_to_bounds_what_is_owed(gauges):
    gauges.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "4", "pods": "100"})))
    gauges.queues.set(QueueRules("ml", quotas={"cpu": Quota(limit=2000)}))
    for name in ("a", "b"):
        gauges.queues.set(QueueRules(name, parent="ml", quotas={"cpu": Quota(guarantee=2000)}))
    gauges.runs("b0", "b", "2")
    gauges.waits("a0", "a")
    assert gauges.read()["owed"]["a",] == 0
