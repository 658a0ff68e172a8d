"""When running pods end: by what they declare, and by what earlier pods of their owner took."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from podwright.core.gangs import run_times as module
from podwright.core.gangs.run_times import RunTimes
from podwright.core.objects.pod import parse_pod

NOW = 10_000.0
START = "1970-01-01T02:45:00Z"
"""100 seconds before."""


def pod(owner="job", limit=None, annotation=None, start=START, namespace="default"):
    references = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": True}]
    return parse_pod({
        "metadata": {
            "name": "p", "namespace": namespace, "ownerReferences": references if owner else [],
            "annotations": {} if annotation is None else {"podwright.dev/run-time": annotation},
        },
        "spec": {} if limit is None else {"activeDeadlineSeconds": limit},
        "status": {"startTime": start} if start else {},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("given", "end"),
    [
        pytest.param(pod(limit=300), NOW + 200, id="its deadline"),
        pytest.param(pod(annotation="10m"), NOW + 500, id="its annotation"),
        pytest.param(pod(limit=300, annotation="10m"), NOW + 200, id="the shorter of both"),
        pytest.param(pod(limit=300, start=None), NOW + 300, id="it has not started"),
        pytest.param(pod(limit=30), NOW, id="it should have ended"),
        pytest.param(replace(pod(limit=300), terminating=True), NOW, id="it terminates"),
        pytest.param(pod(), inf, id="it says nothing"),
        pytest.param(pod(owner=""), inf, id="it has no owner"),
        pytest.param(pod(annotation="soon"), inf, id="its annotation is no duration"),
        pytest.param(pod(annotation="-5m"), inf, id="its annotation is negative"),
        pytest.param(pod(annotation=["5m"]), inf, id="its annotation is no text"),
    ],
)
def test_a_pod_ends_as_it_declares(given, end):
    assert RunTimes().end_of(given, NOW) == end


@pytest.mark.parametrize(
    ("given", "sure"),
    [
        pytest.param(pod(limit=300), True, id="its deadline"),
        pytest.param(pod(limit=300, annotation="4m"), False, id="it is expected to end before its deadline"),
        pytest.param(pod(limit=300, annotation="10m"), True, id="its deadline comes first"),
        pytest.param(replace(pod(limit=300), terminating=True), False, id="it terminates"),
        pytest.param(pod(annotation="10m"), False, id="it has no deadline"),
    ],
)
def test_only_a_deadline_makes_an_end_sure(given, sure):
    assert RunTimes().is_sure(given) is sure


def test_else_it_ends_as_the_earlier_pods_of_its_owner_did():
    times = RunTimes()
    for seconds in (100.0, 200.0):
        times.ended(pod(), seconds)
    assert times.end_of(pod(), NOW) == NOW + 50
    assert times.end_of(pod(owner="other"), NOW) == times.end_of(pod(namespace="x"), NOW) == inf
    assert times.end_of(pod(limit=500), NOW) == NOW + 400
    for _ in range(100):
        times.ended(pod(), 1000.0)
    assert times.end_of(pod(), NOW) == pytest.approx(NOW + 900, abs=1)


def test_only_some_owners_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "MAX_OWNERS", 2)
    times = RunTimes()
    for owner in ("a", "b", "a", "c"):
        times.ended(pod(owner=owner), 100.0)
    assert [times.end_of(pod(owner=owner), NOW) < inf for owner in ("a", "b", "c")] == [True, False, True]
