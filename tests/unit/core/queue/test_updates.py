"""The event for an update of a pending pod, and the plugins whose hints it reaches."""

from __future__ import annotations

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Handle
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queue.hinting import registered
from podwright.core.queue.updates import pod_update
from podwright.core.state.cache import Cache
from support.objects.builders import make_pod
from support.queue.kit import Harness

ANNOTATED = {"metadata": {"annotations": {"go": "yes"}}}
OTHER = ClusterEvent(POD, Action.UPDATE_POD_OTHER)


def parsed(**more):
    return parse_pod(make_pod("web", **more), keep_raw=True)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(ANNOTATED, id="an annotation"),
        pytest.param({"metadata": {"finalizers": ["example.com/hold"]}}, id="a finalizer"),
        pytest.param({"metadata": {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "1"}]}}, id="an owner"),
        pytest.param({"spec": {"activeDeadlineSeconds": 60}}, id="an unknown field of the spec"),
        pytest.param({"spec": {"schedulingGates": [{"name": "g"}]}}, id="one of its gates"),
    ],
)
def test_a_change_without_an_action_of_its_own_is_a_general_update(now):
    assert pod_update(parsed(), parsed(**now)) == OTHER


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"resourceVersion": "2"}}, id="its resource version"),
        pytest.param({"metadata": {"generation": 2}}, id="its generation"),
        pytest.param({"metadata": {"managedFields": [{"manager": "me"}]}}, id="its managed fields"),
        pytest.param(
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
            id="the condition that the scheduler writes",
        ),
        pytest.param({"status": {"qosClass": "Burstable"}}, id="its QoS class"),
    ],
)
def test_changes_of_status_and_bookkeeping_are_not_events(now):
    assert pod_update(parsed(), parsed(**now)) is None


def test_a_change_with_an_action_of_its_own_is_not_a_general_update():
    now = parsed(labels={"a": "b"}, **ANNOTATED)
    assert pod_update(parsed(), now) == ClusterEvent(POD, Action.UPDATE_POD_LABEL)


@pytest.mark.parametrize("field", ["resourceClaimStatuses", "extendedResourceClaimStatus"])
def test_a_generated_resource_claim_has_an_action_of_its_own(field):
    event = pod_update(parsed(), parsed(status={field: [{"name": "gpu", "resourceClaimName": "web-gpu"}]}))
    assert event == ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)


def test_an_annotation_helps_a_pod_rejected_by_a_plugin_without_hints():
    h = Harness()
    h.rejected("p", "NoHints")
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"backoff": 1}


def test_an_annotation_helps_a_pod_gated_by_a_plugin_without_hints():
    h = Harness()
    h.pre_enqueue = lambda pod: (
        None if pod.raw["metadata"].get("annotations") else unresolvable("not yet").by("NoHints")
    )
    h.add("p")
    assert h.counts() == {"gated": 1}
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"active": 1}


def test_an_annotation_does_not_help_a_pod_rejected_by_a_plugin_with_hints_for_labels():
    h = Harness()
    h.hints["Labels"] = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),)
    h.rejected("p", "Labels")
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"unschedulable": 1}


def test_an_annotation_that_changes_in_flight_helps_when_the_attempt_fails():
    h = Harness()
    h.add("p")
    queued = h.queue.pop()
    h.queue.update(h.pod("p", **ANNOTATED))
    h.queue.reject(queued, ["NoHints"])
    assert h.counts() == {"backoff": 1}


def test_only_one_default_plugin_registers_for_general_updates_as_in_kube_scheduler():
    features = Features(None)
    handle = Handle(cache=Cache(), features=features, cluster=None, clock=lambda: 0.0)
    hints = Framework(default_profile("podwright", PLUGINS, features), PLUGINS, handle).hints
    assert [name for name in hints if registered(hints, name, OTHER)] == ["NodeDeclaredFeatures"]
