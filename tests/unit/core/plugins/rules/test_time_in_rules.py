"""Rules that read the time: their values, which minutes help pods that they rejected, and what is computed again."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from podwright.api.scheduler_policy import PolicyError
from podwright.core.cel_columns.kept import kept_columns
from podwright.core.cycle import Placement, Rejection
from podwright.core.framework.cluster_events import TIME, Action, ClusterEvent, Hint
from podwright.core.objects.pod import parse_pod
from podwright.engine import engine as engine_module
from podwright.simulator.world import World
from support.engine.kit import Rig, deciding, settle
from support.objects.builders import make_node, make_pod, make_policy
from support.plugins.kit import raw_scores, verdicts
from support.rules.running import decided, plugin_of, policy_of
from support.waiting import until

NIGHT = "now.getHours('Europe/Berlin') >= 22 || now.getHours('Europe/Berlin') < 6"


def at(text):
    """Seconds since the epoch of a time in UTC."""
    return datetime.datetime.fromisoformat(f"{text}+00:00").timestamp()


class Clocked:
    """A cluster of two nodes, and what time it is."""

    def __init__(self, text):
        self.now = at(text)
        self.world = World(clock=lambda: self.now)
        self.world.fill({"nodes": [make_node("a", labels={"tz": "Asia/Tokyo"}), make_node("b", labels={"tz": "UTC"})]})


def pod(**labels):
    return parse_pod(make_pod("p", labels=labels), keep_raw=True)


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        pytest.param("2026-01-15T20:59:59", False, id="before ten at night in winter"),
        pytest.param("2026-01-15T21:00:00", True, id="at ten at night in winter"),
        pytest.param("2026-07-15T20:00:00", True, id="at ten at night in summer"),
        pytest.param("2026-07-15T03:59:00", True, id="before six in the morning in summer"),
        pytest.param("2026-07-15T04:00:00", False, id="at six in the morning in summer"),
    ],
)
def test_batch_runs_at_night(text, placed):
    clocked = Clocked(text)
    assert isinstance(decided(clocked.world, policy_of([NIGHT]), pod()), Placement if placed else Rejection)


def test_days_of_the_week_and_minutes_of_the_day():
    clocked = Clocked("2026-11-22T23:30:00")  # a Sunday in UTC, a Monday in Tokyo
    rule = "now.getDayOfWeek(node.labels.tz) == 0 && now.getHours('UTC') * 60 + now.getMinutes('UTC') == 1410"
    found = verdicts(plugin_of(clocked.world, policy_of([rule])), pod())
    assert [name for name, status in found.items() if not status] == ["b"]
    assert raw_scores(plugin_of(clocked.world, policy_of(scores=["now.getHours(node.labels.tz)"])), pod()) == {
        "a": 8,
        "b": 23,
    }


@pytest.mark.parametrize(
    "expression",
    [NIGHT, "now.getHours(node.labels.tz) > 8", "['UTC', 'Asia/Tokyo'].exists(z, now.getHours(z) == 23)",
     "[1].all(now, now == 1)", "now > timestamp('2026-01-15T21:00:00Z') && node.labels.tz == 'UTC'",
     "now - timestamp('2026-01-15T20:00:00Z') > duration('61m') || node.podCount > 0",
     "[now.getHours('UTC')] == [21] || pod.labels.x == '1'", "60 / now.getMinutes('UTC') == 60"],
)  # fmt: skip
def test_columns_and_nodes_one_by_one_agree_at_each_time(expression):
    clocked = Clocked("2026-01-15T20:59:00")
    plugin = plugin_of(clocked.world, policy_of([expression]))
    for minutes in (0, 1, 2, 62, 3, 600):
        clocked.now = at("2026-01-15T20:59:00") + 60 * minutes
        afresh = Clocked("2026-01-15T20:59:00")
        afresh.now = clocked.now
        found = verdicts(plugin_of(afresh.world, policy_of([expression])), pod(x="0"))
        assert verdicts(plugin, pod(x="0")) == found


def test_results_are_kept_until_the_part_that_reads_the_time_has_another_value():
    clocked = Clocked("2026-01-15T20:00:00")
    plugin = plugin_of(clocked.world, policy_of([f"({NIGHT}) && node.labels.tz == 'UTC'"]))
    verdicts(plugin, pod())
    columns = len(kept_columns(clocked.world.cache))
    for _ in range(59):
        clocked.now += 60
        verdicts(plugin, pod())
    assert len(kept_columns(clocked.world.cache)) == columns
    clocked.now += 60
    verdicts(plugin, pod())
    assert len(kept_columns(clocked.world.cache)) > columns


def test_a_minute_helps_if_what_a_filter_reads_of_the_time_has_another_value():
    plugin = plugin_of(Clocked("2026-01-15T20:00:00").world, policy_of([NIGHT], ["now.getMinutes('UTC')"]))
    (hint,) = (each for each in plugin.hints() if each.event == ClusterEvent(TIME, Action.ALL))
    ten, six = int(at("2026-01-15T21:00:00") // 60), int(at("2026-01-16T05:00:00") // 60)
    found = [hint.function(pod(), before, after) for before, after in ((ten - 1, ten), (ten, ten + 1), (ten, six))]
    assert found == [Hint.QUEUE, Hint.SKIP, Hint.QUEUE]


def test_only_rules_that_read_the_time_wait_for_it():
    plugin = plugin_of(Clocked("2026-01-15T20:00:00").world, policy_of(["node.name == 'a'"], ["now.getMinutes('UTC')"]))
    assert not any(each.event.resource == TIME for each in plugin.hints())


@pytest.mark.parametrize("zone", ["Europe/Berlinn", "../etc/passwd"])
def test_a_time_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(PolicyError, match=r"unknown time zone Europe/Berlinn|invalid location name"):
        policy_of([f"now.getHours('{zone}') > 3"])


async def test_a_pod_that_waits_for_the_night_is_placed_when_it_comes(monkeypatch):
    monkeypatch.setattr(engine_module, "HOUSEKEEPING_SECONDS", 0.001)
    rig = Rig()
    rig.now = at("2026-01-15T20:58:30")
    rig.node("a")
    rules = {"filters": [{"name": "night", "expression": NIGHT, "message": "batch runs at night"}]}
    rig.engine.policies.apply(make_policy("batch", generation=1, uid="u", rules=rules))
    async with deciding(rig), asyncio.TaskGroup() as group:
        housekeeping = group.create_task(rig.engine.run_housekeeping())
        rig.pod("web")
        await until(lambda: rig.counts == {"unschedulable": 1})
        rig.now += 60
        await settle()
        assert rig.counts == {"unschedulable": 1}, "it is still too early"
        rig.now += 60
        await until(lambda: rig.cluster.bound == [("web", "a")])
        housekeeping.cancel()


def test_minutes_are_events_only_while_a_filter_reads_the_time():
    """Each event tries pods again that an extender rejected."""
    rig = Rig()
    for rules, waits in (
        ({"scores": [{"name": "s", "expression": "now.getHours('UTC')"}]}, False),
        ({"filters": [{"name": "f", "expression": "node.name == 'now'"}]}, False),
        ({"filters": [{"name": "f", "expression": NIGHT}]}, True),
    ):
        rig.engine.policies.apply(make_policy("p", generation=1, uid=str(rules), rules=rules))
        assert rig.engine.policies.waits_for_time() is waits
    rig.engine.policies.remove("p")
    assert not rig.engine.policies.waits_for_time()
