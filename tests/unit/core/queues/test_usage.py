"""The usage of queues over time: averages with a half-life, hours, and the turns that follow from them."""

from __future__ import annotations

from math import ceil

import pytest

from podwright.api.queue_status import QueueReport, status_of, usage_of
from podwright.core.queues.membership import USER_LABEL
from podwright.core.queues.usage import MAX_USERS, MOST_SECONDS, USERS_AT_ONCE, Record
from support.queues.reclaims import GPU, NOW, QueuedCluster, queue

HOUR = 3600.0
STEP = 600.0


def test_an_average_halves_in_its_half_life():
    record = Record()
    record.sample({GPU: 8}, NOW, HOUR)
    assert record.average == {}, "nothing is known of the time before"
    for step in range(1, 7):
        record.sample({GPU: 8}, NOW + step * STEP, HOUR)
    assert record.average == pytest.approx({GPU: 4.0})
    record.sample({}, NOW + 2 * HOUR, HOUR)
    assert record.average == pytest.approx({GPU: 2.0})
    record.sample({}, NOW + 100 * HOUR, HOUR)
    assert record.average == {}


def test_many_samples_give_the_average_of_one():
    often, once = Record(), Record()
    for record in (often, once):
        record.sample({GPU: 8}, NOW, HOUR)
    for step in range(1, 181):
        often.sample({GPU: 8}, NOW + 5 * step, HOUR)
    once.sample({GPU: 8}, NOW + MOST_SECONDS, HOUR)
    assert often.average == pytest.approx(once.average)
    assert often.hours == pytest.approx({GPU: 2.0})
    assert once.hours == pytest.approx({GPU: 2.0})


def test_time_that_nobody_has_seen_counts_nothing_but_the_average_gets_less():
    record = Record(NOW, NOW, {GPU: 4.0}, {GPU: 50.0}, {"ann": {GPU: 20.0}}, users_at=NOW)
    for now, hours in ((NOW + HOUR, 0.0), (NOW + HOUR + STEP, 100 * STEP / HOUR)):
        record.sample({GPU: 100}, now, HOUR)
        [*record.sample_users({"ann": {GPU: 100}}, now)]
        assert (record.hours[GPU], record.users["ann"][GPU]) == pytest.approx((50 + hours, 20 + hours))
        assert hours or record.average == {GPU: 2.0}


def test_a_clock_that_steps_back_counts_nothing():
    record = Record()
    record.sample({GPU: 8}, NOW, HOUR)
    record.sample({GPU: 8}, NOW - HOUR, HOUR)
    assert (record.hours, record.average) == ({GPU: 0.0}, {})


def count(queues, now):
    """Every ten minutes since the last time."""
    at = max((record.at for record in queues.records.values()), default=now)
    for step in range(1, ceil((now - at) / STEP)):
        [*queues.sample_usage(at + step * STEP)]
    [*queues.sample_usage(now)]


def test_hours_count_for_users_also_without_a_half_life():
    it = QueuedCluster([8], [queue("a")])
    count(it.queues, NOW)
    it.runs("first", "a", "n0", 2, labels={USER_LABEL: "ann"})
    it.runs("second", "a", "n0", 1, labels={USER_LABEL: "bob"})
    it.runs("nobody", "a", "n0", 1)
    count(it.queues, NOW + HOUR)
    it.cache.remove_pod("default/first")
    count(it.queues, NOW + 3 * HOUR)
    record = it.queues.records["a"]
    assert (record.average, record.hours[GPU]) == ({}, pytest.approx(8.0))
    assert {user: hours[GPU] for user, hours in record.users.items()} == pytest.approx({"ann": 2.0, "bob": 3.0})
    report = QueueReport(queues=it.queues, name="a", generation=1, spec={}, previous={}, now="2026-01-01T12:00:00Z")
    usage = status_of(report)["usage"]
    assert [(each["user"], each["hours"][GPU]) for each in usage["users"]] == [("bob", "3"), ("ann", "2")]
    restored = usage_of({"usage": usage})
    assert (restored.users.keys(), restored.hours[GPU], restored.since) == ({"ann", "bob"}, 8.0, NOW)


def test_of_many_users_those_with_pods_and_the_largest_are_known():
    record = Record()
    record.hours[GPU] = 0.0
    held = {f"u{index:03}": {GPU: index} for index in range(200)}
    for now in (NOW, NOW + STEP):
        record.sample({GPU: sum(range(200))}, now, 0.0)
        steps = len([*record.sample_users(held, now)])
    assert (len(record.users), steps) == (200, 200 // USERS_AT_ONCE)
    assert [*record.largest_users()] == [f"u{index:03}" for index in range(199, 199 - MAX_USERS, -1)]
    [*record.sample_users({"u001": {GPU: 1}}, NOW + 2 * STEP)]
    assert record.users.keys() == {"u001", *record.largest_users()}
    assert len(record.users) == MAX_USERS + 1


@pytest.mark.parametrize("wrong", [[{}], [{"user": "a", "hours": {GPU: "-1"}}], [{"user": "a", "hours": 3}], {"a": 1}])
def test_users_that_nobody_can_read_make_the_record_begin_again(wrong):
    usage = {"observedAt": "2026-01-01T11:00:00Z", "hours": {GPU: "100"}, "users": wrong}
    assert usage_of({"usage": usage}) is None


@pytest.fixture
def cluster():
    return QueuedCluster([8], [queue("a", usage_half_life=HOUR), queue("b", usage_half_life=HOUR)])


def use(cluster, name, hours):
    cluster.runs(f"{name}-past", name, "n0", 4)
    for now in (cluster.now, cluster.now + hours * HOUR):
        count(cluster.queues, now)
    cluster.now += hours * HOUR
    cluster.cache.remove_pod(f"default/{name}-past")


def first(cluster):
    return min(("a", "b"), key=cluster.queues.turns.order_key)


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
    assert cluster.queues.turns.order_key("a") == cluster.queues.turns.order_key("b")
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
    count(cluster.queues, cluster.now + 60)
    assert written(status)["usage"] == status["usage"], "not written again"
    count(cluster.queues, cluster.now + 700)
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
    count(cluster.queues, cluster.now)
    assert [*cluster.queues.records] == ["b"]


def test_the_use_of_many_queues_is_counted_in_steps_in_which_queues_may_go():
    it = QueuedCluster([8], [queue(f"q{number}") for number in range(300)])
    it.runs("p", "q0", "n0", 2)
    count(it.queues, NOW)
    steps = it.queues.sample_usage(NOW + STEP)
    next(steps)
    it.queues.remove("q299")
    assert len([*steps]) == 3
    assert (it.queues.records["q0"].hours[GPU], it.queues.records["q298"].at) == (2 * STEP / HOUR, NOW + STEP)
    count(it.queues, NOW + STEP)
    assert "q299" not in it.queues.records
