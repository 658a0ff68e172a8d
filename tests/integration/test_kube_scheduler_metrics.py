"""Podwright's metrics and those of kube-scheduler itself, scraped side by side.

Dashboards and alerts for kube-scheduler work if names, types, labels and buckets are the same. docs/metrics.md names
what is missing.
"""

from __future__ import annotations

import fnmatch
import re
from contextlib import ExitStack

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.monitoring.exposition import families

DOCUMENT = (kit.CHECKOUT / "docs" / "metrics.md").read_text()
MISSING = re.findall(
    r"`([a-z][\w*]*)`", "".join(re.findall(r"^\| (.*) \| .* \|$", DOCUMENT.partition("## Missing")[2], re.MULTILINE))
)
IN_USE = (
    "scheduler_pending_pods", "scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds", "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_pod_scheduling_attempts", "scheduler_framework_extension_point_duration_seconds",
    "scheduler_plugin_execution_duration_seconds", "scheduler_plugin_evaluation_total", "scheduler_unschedulable_pods",
    "scheduler_queue_incoming_pods_total", "scheduler_cache_size", "scheduler_goroutines",
    "scheduler_preemption_attempts_total", "scheduler_event_handling_duration_seconds",
    "rest_client_requests_total", "rest_client_request_duration_seconds", "process_cpu_seconds_total",
    "process_resident_memory_bytes", "process_start_time_seconds", "process_open_fds", "process_max_fds",
)  # fmt: skip
"""The metrics that dashboards and alerts for kube-scheduler use. Both have series of each of them."""
SAMPLED = {"scheduler_plugin_execution_duration_seconds"}
"""kube-scheduler observes these in one attempt of ten."""
PATHS = "/healthz,/readyz,/livez,/metrics*"


@pytest.fixture(scope="module")
def cluster(control_plane):
    kit.stay_installed(control_plane)
    return control_plane


def rejected(scheduler):
    return scheduler.metric("scheduler_schedule_attempts_total", result="unschedulable") > 0


@pytest.fixture
def scraped(cluster, empty_cluster, namespace):
    """The families of kube-scheduler and of Podwright, by path, after the same pods."""
    for name in ("a", "b"):
        cluster.client.create(node(name))
    scheduler = cluster.start_scheduler(name="measured", flags=[f"--authorization-always-allow-paths={PATHS}"])
    with ExitStack() as stack:
        stack.callback(scheduler.stop, 30)
        operator = stack.enter_context(kit.running(cluster))
        for name in ("default-scheduler", "podwright"):
            for number in range(3):
                cluster.client.create(pod(f"{name}-{number}", namespace, scheduler=name))
            cluster.client.create(pod(f"{name}-large", namespace, scheduler=name, cpu="1000"))
        kit.wait_bound(cluster, namespace, 6)
        (port,) = [word.rpartition("=")[2] for word in scheduler.command if str(word).startswith("--secure-port=")]
        theirs = kit.Operator(scheduler, int(port), scheme="https")
        wait_until(lambda: rejected(theirs) and rejected(operator), 30, "both have rejected a pod")
        paths = ("/metrics", "/metrics/resources")
        return {path: tuple(families(each.get(path)[1]) for each in (theirs, operator)) for path in paths}


def test_names_types_labels_and_buckets_are_kube_schedulers_and_what_is_missing_is_documented(scraped):
    for theirs, ours in scraped.values():
        both = theirs.keys() & ours.keys()
        assert {name: ours[name].kind for name in both} == {name: theirs[name].kind for name in both}
        sampled = {name for name in both if theirs[name].sampled and ours[name].sampled}
        assert {n: ours[n].labels.keys() for n in sampled} == {n: theirs[n].labels.keys() for n in sampled}
        assert {n: ours[n].buckets for n in sampled} == {n: theirs[n].buckets for n in sampled}
    theirs, ours = scraped["/metrics"]
    assert [name for name in IN_USE if not ours[name].sampled] == []
    assert {name for name in IN_USE if name not in theirs or not theirs[name].sampled} <= SAMPLED
    for label, name in (("result", "scheduler_schedule_attempts_total"), ("type", "scheduler_cache_size")):
        assert ours[name].labels[label] == theirs[name].labels[label]
    theirs, ours = scraped["/metrics/resources"]
    assert ours.keys() == {"kube_pod_resource_request", "kube_pod_resource_limit"} >= theirs.keys() > set()
    theirs, ours = scraped["/metrics"]
    lacking = {name for name in theirs.keys() - ours.keys() if not any(fnmatch.fnmatch(name, each) for each in MISSING)}
    assert lacking == set(), "docs/metrics.md says what is missing"
