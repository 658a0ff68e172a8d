"""Each metric counts and times what docs/metrics.md says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from podwright import __version__
from podwright.core.framework.interface import FilterPlugin, PermitPlugin, Plugin
from podwright.core.framework.status import Code, Status
from podwright.core.queue import hinting
from podwright.engine.records.families import Counter
from podwright.engine.records.metrics import ATTEMPTS_PER_MEASURED, CATALOGUE
from podwright.kube.serve.answers.pod_resources import POD_LIMIT, POD_REQUEST
from support.engine.kit import PerNode, Rig, Slow, custom_policy, deciding, on_node, ours, settle, values
from support.objects.builders import make_node

SLI = "scheduler_pod_scheduling_sli_duration_seconds"


class Broken(Plugin, FilterPlugin):
    """Raises for pods with the label `broken`."""

    name = "Broken"

    def filter(self, _state, pod, _node):
        if "broken" in pod.labels:
            raise ZeroDivisionError("a bug")


class Waiter(Plugin, PermitPlugin):
    name = "Waiter"

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), 30.0


async def test_unschedulable_pods_are_counted_by_the_plugins_that_rejected_them():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("big", requests={"cpu": "2"})
    rig.pod("picky", requests={"cpu": "2"}, spec={"nodeSelector": {"disk": "ssd"}})
    rig.pod("held", spec={"schedulingGates": [{"name": "later"}]})
    async with deciding(rig):
        assert values(rig, "scheduler_unschedulable_pods") == {
            ("NodeResourcesFit", "podwright"): 1,
            ("NodeAffinity", "podwright"): 1,
            ("SchedulingGates", "podwright"): 1,
        }
        rig.node("b", allocatable={"cpu": "4"})
        await settle()
        assert ("NodeResourcesFit", "podwright") not in values(rig, "scheduler_unschedulable_pods")


async def test_each_entry_into_a_queue_is_counted_by_its_event():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("big", requests={"cpu": "2"})
    rig.pod("held", spec={"schedulingGates": [{"name": "later"}]})
    async with deciding(rig):
        rig.engine.nodes.put(make_node("a", allocatable={"cpu": "3"}))
        await settle()
        assert values(rig, "scheduler_queue_incoming_pods_total") == {
            ("active", "UnscheduledPodAdd"): 1,
            ("unschedulable", "UnscheduledPodAdd"): 1,
            ("unschedulable", "ScheduleAttemptFailure"): 1,
            ("backoff", "NodeUpdateNodeAllocatable"): 1,
            ("active", "PopFromBackoffQ"): 1,
        }
        assert rig.cluster.bound == [("big", "a")]


async def test_one_attempt_in_fifty_is_measured_from_pre_filter_to_bind():
    rig = Rig({"PerNode": PerNode})
    for name in ("a", "b"):
        rig.node(name)
    policy = custom_policy("filter", "PerNode")
    policy["spec"]["plugins"]["score"] = {"enabled": [{"name": "PerNode"}]}
    assert rig.engine.policies.apply(policy).accepted
    for number in range(ATTEMPTS_PER_MEASURED + 1):
        rig.pod(f"p{number}")
    async with deciding(rig):
        assert len(rig.cluster.bound) == ATTEMPTS_PER_MEASURED + 1
        points = values(rig, "scheduler_framework_extension_point_duration_seconds_count")
        ran = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Bind")
        assert points == {(point, "Success", "podwright"): 2 for point in ran}
        plugins = values(rig, "scheduler_plugin_execution_duration_seconds_count")
        for expected in (
            ("NodeResourcesFit", "Filter", "Success"),
            ("PerNode", "Filter", "Success"),
            ("PerNode", "Score", "Success"),
            ("TaintToleration", "ScoreExtensionNormalize", "Success"),
            ("VolumeBinding", "PreBindPreFlight", "Skip"),
            ("DefaultBinder", "Bind", "Success"),
        ):
            assert plugins.get(expected) == 2, expected


async def test_durations_are_labelled_with_the_status_that_ended_them():
    rig = Rig({"Slow": Slow})
    rig.node("a", allocatable={"cpu": "1"})
    Slow.gate = asyncio.get_running_loop().create_future()
    Slow.gate.set_exception(ZeroDivisionError("a bug"))
    rig.engine.policies.apply(custom_policy("preBind", "Slow"))
    rig.pod("web")
    async with deciding(rig):
        points = values(rig, "scheduler_framework_extension_point_duration_seconds_count")
        assert points["PreBind", "Error", "podwright"] == 1
        assert points["Unreserve", "Success", "podwright"] == 1
        plugins = values(rig, "scheduler_plugin_execution_duration_seconds_count")
        assert plugins["Slow", "PreBind", "Error"] == 1


async def test_events_and_hints_are_measured():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    for number in range(hinting.SAMPLE_INTERVAL):
        rig.pod(f"p{number}", requests={"cpu": "2"})
    async with deciding(rig):
        rig.node("b", allocatable={"cpu": "1"})
        await settle()
        events = values(rig, "scheduler_event_handling_duration_seconds_count")
        assert events == {("NodeAdd",): 2, ("UnscheduledPodAdd",): hinting.SAMPLE_INTERVAL}
        hints = values(rig, "scheduler_queueing_hint_execution_duration_seconds_count")
        assert hints == {("NodeResourcesFit", "NodeAdd", "QueueSkip"): 1}


async def test_durations_of_events_are_labelled_with_kube_schedulers_event_names():
    rig = Rig()
    node = make_node("a")
    rig.engine.nodes.put(node)
    raw = rig.pod("web")
    rig.engine.pending.put({**raw, "metadata": {**raw["metadata"], "labels": {"a": "b"}, "resourceVersion": "2"}})
    rig.engine.pending.drop("default/web", raw)
    placed = on_node(ours("other"), "a")
    rig.engine.assigned.put(placed)
    rig.engine.assigned.drop("default/other", placed)
    rig.engine.objects("StorageClass").put({"metadata": {"name": "fast"}})
    rig.engine.objects("StorageClass").drop("/fast", None)
    rig.engine.nodes.drop("a", node)
    assert values(rig, "scheduler_event_handling_duration_seconds_count") == dict.fromkeys(
        [
            ("NodeAdd",),
            ("NodeDelete",),
            ("UnscheduledPodAdd",),
            ("UnscheduledPodUpdate",),
            ("UnscheduledPodDelete",),
            ("AssignedPodAdd",),
            ("AssignedPodDelete",),
            ("storage.k8s.io/StorageClassAdd",),
            ("storage.k8s.io/StorageClassDelete",),
        ],
        1,
    )


async def test_preemption_attempts_are_counted_with_and_without_victims():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "1"}, priority=0), "a"))
    rig.pod("high", requests={"cpu": "1"}, priority=10)
    rig.pod("huge", requests={"cpu": "5"}, priority=10)
    rig.evictor.waits = True
    async with deciding(rig):
        assert values(rig, "scheduler_preemption_attempts_total") == {(): 2}
        assert values(rig, "scheduler_preemption_victims_count") == {(): 1}
        assert values(rig, "scheduler_preemption_victims_sum") == {(): 1}
        assert values(rig, "scheduler_preemption_goroutines_execution_total") == {}
        rig.evictor.answers["low"](False)
        assert values(rig, "scheduler_preemption_goroutines_execution_total") == {("error",): 1}


async def test_searches_for_victims_are_labelled_with_the_code_that_ended_them():
    class Deliberate(Plugin, FilterPlugin):
        """Takes 10 ms per node."""

        name = "Deliberate"

        def filter(self, _state, _pod, _node):
            rig.now += 0.01

    rig = Rig({"Deliberate": Deliberate})
    rig.engine.policies.apply(custom_policy("filter", "Deliberate"))
    rig.node("a", allocatable={"cpu": "1"})
    rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "1"}, priority=0), "a"))
    rig.pod("high", requests={"cpu": "1"}, priority=10)
    rig.pod("shy", requests={"cpu": "1"}, priority=10, spec={"preemptionPolicy": "Never"})
    rig.evictor.waits = True
    async with deciding(rig):
        name = "scheduler_preemption_evaluation_duration_seconds"
        assert values(rig, f"{name}_count") == {("pod", "Success"): 1, ("pod", "Unschedulable"): 1}
        seconds = values(rig, f"{name}_sum")
        assert seconds["pod", "Unschedulable"] == 0
        assert seconds["pod", "Success"] > 0
        assert values(rig, "scheduler_workload_preemption_attempts_total") == {}


async def test_a_pod_that_was_scheduled_after_a_flush_is_counted():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        rig.engine.cache.set_node(rig.engine.cache.present("a").node)
        rig.now += 400
        rig.engine.wake()
        await settle()
        assert values(rig, "scheduler_pod_scheduled_after_flush_total") == {(): 0}
        # A node is added without an event, as if a queueing hint had wrongly skipped the event.
        other = Rig()
        other.node("b", allocatable={"cpu": "8"})
        rig.engine.cache.set_node(other.engine.cache.present("b").node)
        rig.now += 400
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("web", "b")]
        assert values(rig, "scheduler_pod_scheduled_after_flush_total") == {(): 1}


@pytest.mark.parametrize(("allowed", "result"), [(True, "Success"), (False, "Unschedulable")])
async def test_waits_in_permit_are_labelled_with_the_code_that_ended_them(allowed, result):
    rig = Rig({"Waiter": Waiter})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("permit", "Waiter"))
    rig.pod("web")
    async with deciding(rig):
        (waiting,) = rig.engine.binding_cycles.waiting()
        waiting.allow("Waiter") if allowed else waiting.reject("Waiter", "no")
        await settle()
        assert values(rig, "scheduler_permit_wait_duration_seconds_count") == {(result,): 1}


async def test_gauges_show_in_flight_events_and_the_size_of_the_cache():
    rig = Rig()
    rig.node("a")
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    rig.pod("web")
    rig.engine.queue.pop()
    assert values(rig, "scheduler_inflight_events") == {("PodPopped",): 1}
    assert values(rig, "scheduler_cache_size") == {("nodes",): 1, ("pods",): 0, ("assumed_pods",): 0}


def test_the_tables_in_the_docs_list_every_metric_of_the_catalogue_with_its_labels():
    text = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text().partition("## Missing")[0]
    documented = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(\w+)` \| ([^|]*)\|", text, re.MULTILINE)
    }
    assert documented == {
        f"{each.name}_total" if isinstance(each, Counter) else each.name: each.labels
        for each in (*CATALOGUE, POD_REQUEST, POD_LIMIT)
    }


def test_a_scrape_shows_the_catalogue_and_the_metrics_of_the_process():
    shown = {family.name for family in Rig().ports.metrics.registry.collect()}
    assert {name for name in shown if not name.startswith(("process_", "python_"))} == {each.name for each in CATALOGUE}
    assert "process_cpu_seconds" in shown


async def test_attempts_are_counted_by_result():
    rig = Rig({"Broken": Broken})
    rig.node("a", allocatable={"cpu": "1"})
    rig.engine.policies.apply(custom_policy("filter", "Broken"))
    for name in ("web", "api"):
        rig.pod(name, requests={"cpu": "100m"})
    rig.pod("big", requests={"cpu": "2"})
    rig.pod("broken", labels={"broken": "yes"})
    async with deciding(rig):
        ended = {("scheduled", "podwright"): 2, ("unschedulable", "podwright"): 1, ("error", "podwright"): 1}
        assert values(rig, "scheduler_schedule_attempts_total") == ended
        assert values(rig, "scheduler_scheduling_attempt_duration_seconds_count") == ended
        assert values(rig, "scheduler_scheduling_algorithm_duration_seconds_count") == {(): 4}


@pytest.mark.parametrize(
    ("attempt", "seconds", "result"),
    [
        pytest.param("bound", 5.0, "scheduled", id="until the pod is bound"),
        pytest.param("rejected", 0.75, "unschedulable", id="until PreBind rejects the node"),
        pytest.param("failed", 2.0, "error", id="until PreBind fails"),
    ],
)
async def test_an_attempt_lasts_until_its_binding_cycle_ends(attempt, seconds, result):
    rig = Rig({"Slow": Slow})
    rig.node("a")
    Slow.gate = asyncio.get_running_loop().create_future()
    rig.engine.policies.apply(custom_policy("preBind", "Slow"))
    rig.pod("web")
    async with deciding(rig):
        assert values(rig, "scheduler_schedule_attempts_total") == {}
        rig.now += seconds
        if attempt == "failed":
            Slow.gate.set_exception(ZeroDivisionError("a bug"))
        else:
            Slow.gate.set_result(None if attempt == "bound" else Status(Code.UNSCHEDULABLE, ("no",)))
        await settle()
        assert values(rig, "scheduler_schedule_attempts_total") == {(result, "podwright"): 1}
        assert values(rig, "scheduler_scheduling_attempt_duration_seconds_sum") == {(result, "podwright"): seconds}


async def test_the_time_and_the_attempts_until_a_pod_is_bound_are_observed():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        assert values(rig, SLI + "_count") == {}
        rig.now += 7
        rig.node("b", allocatable={"cpu": "2"})
        await settle()
        assert rig.cluster.bound == [("web", "b")]
        assert values(rig, SLI + "_sum") == {("2",): 7}
        assert values(rig, SLI + "_count") == {("2",): 1}
        assert values(rig, "scheduler_pod_scheduling_attempts_sum") == {(): 2}
        assert values(rig, "scheduler_pod_scheduling_attempts_count") == {(): 1}


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (16, "15+"), (40, "15+")])
async def test_pods_with_fifteen_attempts_or_more_share_one_label(attempts, label):
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    rig.engine.queue.get("default/web").attempts = attempts - 1
    async with deciding(rig):
        assert values(rig, SLI + "_count") == {(label,): 1}
        assert values(rig, "scheduler_pod_scheduling_attempts_sum") == {(): attempts}


@pytest.mark.parametrize(
    ("metric", "first", "factor", "count"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 2, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 2, 15),
        (SLI, 0.01, 2, 20),
        ("scheduler_pod_scheduling_attempts", 1, 2, 5),
        ("scheduler_permit_wait_duration_seconds", 0.001, 2, 15),
        ("scheduler_preemption_victims", 1, 2, 7),
        ("scheduler_preemption_goroutines_duration_seconds", 0.01, 2, 20),
        ("scheduler_framework_extension_point_duration_seconds", 0.0001, 2, 12),
        ("scheduler_plugin_execution_duration_seconds", 0.00001, 1.5, 20),
        ("scheduler_event_handling_duration_seconds", 0.0001, 2, 12),
    ],
)
async def test_buckets_match_kube_scheduler(metric, first, factor, count):
    rig = Rig({"Waiter": Waiter})
    rig.node("a", allocatable={"cpu": "1"})
    rig.engine.policies.apply(custom_policy("permit", "Waiter"))
    rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "1"}, priority=0), "a"))
    rig.pod("web", requests={"cpu": "1"}, priority=10)
    rig.pod("small")
    async with deciding(rig):
        (waiting,) = rig.engine.binding_cycles.waiting()
        waiting.allow("Waiter")
        await settle()
        assert rig.evictor.evicted
        bounds = {
            float(sample.labels["le"])
            for family in rig.ports.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"{metric}_bucket"
        }
        assert sorted(bounds) == pytest.approx([*(first * factor**n for n in range(count)), float("inf")])


async def test_no_created_series_are_exposed():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        text = generate_latest(rig.ports.metrics.registry).decode()
        assert "scheduler_schedule_attempts_total{" in text
        assert "_created" not in text


def test_the_version_is_exposed_under_a_name_of_its_own():
    families = {family.name: family for family in Rig().ports.metrics.registry.collect()}
    (sample,) = families["podwright_build_info"].samples
    assert (sample.labels["version"], sample.value) == (__version__, 1)
    assert "kubernetes_build_info" not in families
