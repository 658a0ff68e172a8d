"""What queues have used over time: averages with a half-life, hours, and the turns that follow from them."""

from __future__ import annotations

import pytest

from podwright.api.queue_status import QueueReport, status_of, usage_of
from podwright.core.queues.usage import Record
from support.queues.reclaims import GPU, NOW, QueuedCluster, queue

HOUR = 3600.0


def test_an_average_halves_in_its_half_life():
    record = Record()
    record.sample({GPU: 8}, NOW, HOUR)
    assert record.average == {}, "nothing is known of the time before"
    record.sample({GPU: 8}, NOW + HOUR, HOUR)
    assert record.average == pytest.approx({GPU: 4.0})
    record.sample({}, NOW + 2 * HOUR, HOUR)
    assert record.average == pytest.approx({GPU: 2.0})
    record.sample({}, NOW + 100 * HOUR, HOUR)
    assert record.average == {}


def test_many_samples_give_the_average_of_one():
    often, once = Record(), Record()
    for record in (often, once):
        record.sample({GPU: 8}, NOW, HOUR)
    for step in range(1, 721):
        often.sample({GPU: 8}, NOW + 5 * step, HOUR)
    once.sample({GPU: 8}, NOW + HOUR, HOUR)
    assert often.average == pytest.approx(once.average)
    assert often.hours == pytest.approx({GPU: 8.0})
    assert once.hours == pytest.approx({GPU: 8.0})


def test_a_clock_that_steps_back_counts_nothing():
    record = Record()
    record.sample({GPU: 8}, NOW, HOUR)
    record.sample({GPU: 8}, NOW - HOUR, HOUR)
    assert (record.hours, record.average) == ({GPU: 0.0}, {})


@pytest.fixture
def cluster():
    return QueuedCluster([8], [queue("a", usage_half_life=HOUR), queue("b", usage_half_life=HOUR)])


def use(cluster, name, hours):
    cluster.runs(f"{name}-past", name, "n0", 4)
    for now in (cluster.now, cluster.now + hours * HOUR):
        cluster.queues.sample_usage(now)
    cluster.now += hours * HOUR
    cluster.cache.remove_pod(f"default/{name}-past")


def first(cluster):
    return min(("a", "b"), key=cluster.queues.order_key)


def test_a_queue_that_has_used_less_goes_first(cluster):
    for name in ("a", "b"):
        cluster.waits(f"{name}1", name)
    use(cluster, "a", 2)
    assert first(cluster) == "b"
    use(cluster, "b", 20)
    assert first(cluster) == "a"


def test_without_a_half_life_the_past_does_not_count(cluster):
    for name in ("a", "b"):
        cluster.queues.set(queue(name))
        cluster.waits(f"{name}1", name)
    use(cluster, "a", 2)
    assert cluster.queues.order_key("a") == cluster.queues.order_key("b")
    assert cluster.queues.records["a"].hours == pytest.approx({GPU: 8.0})


def test_the_status_carries_usage_over_a_restart(cluster):
    use(cluster, "a", 1)

    def written(previous):
        return status_of(
            QueueReport(
                queues=cluster.queues, name="a", generation=1, spec={}, previous=previous, now="2026-01-01T12:00:00Z"
            )
        )

    status = written({})
    assert status["usage"]["hours"][GPU] == "4"
    assert status["usage"]["average"][GPU] == "2"
    found = usage_of(status)
    assert found.average == pytest.approx({GPU: 2.0})
    assert found.at == cluster.now
    cluster.queues.sample_usage(cluster.now + 60)
    assert written(status)["usage"] == status["usage"], "not written again"
    cluster.queues.sample_usage(cluster.now + 700)
    assert written(status)["usage"] != status["usage"]


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"usage": 1},
        {"usage": {"observedAt": "now"}},
        {"usage": {"observedAt": "2026-01-01T12:00:00Z", "hours": {GPU: "many"}}},
        {"usage": {"observedAt": "2026-01-01T12:00:00Z", "hours": {GPU: "-1"}}},
        {"usage": {"observedAt": "2026-01-01T12:00:00Z", "average": {GPU: "nan"}}},
        {"usage": {"observedAt": "2026-01-01T12:00:00Z", "average": {GPU: "1e300"}}},
        {"usage": {"observedAt": "2026-01-01T12:00:00Z", "average": {GPU: "inf"}}},
    ],
)
def test_a_usage_that_makes_no_sense_is_not_taken(status):
    assert usage_of(status) is None


def test_byte_hours_of_years_are_read_back():
    hours = {"memory": "4000000000000000000000"}
    found = usage_of({"usage": {"observedAt": "2026-01-01T12:00:00Z", "hours": hours}})
    assert found.hours == {"memory": 4e21}


def test_the_usage_of_deleted_queues_is_forgotten(cluster):
    use(cluster, "a", 1)
    cluster.queues.remove("a")
    cluster.queues.sample_usage(cluster.now)
    assert [*cluster.queues.records] == ["b"]
