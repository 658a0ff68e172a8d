"""What changed between two versions of a waiting pod, and which plugins are asked about it."""

from __future__ import annotations

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queue.hinting import registered
from podwright.core.queue.updates import pod_update
from podwright.core.state.cache import Cache
from podwright.engine.active_policies import EngineHandle
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
        pytest.param({"spec": {"activeDeadlineSeconds": 60}}, id="a field of the spec that we do not know"),
        pytest.param({"spec": {"schedulingGates": [{"name": "g"}]}}, id="one of its gates"),
    ],
)
def test_what_has_no_event_of_its_own_is_an_update_of_the_pod(now):
    assert pod_update(parsed(), parsed(**now)) == OTHER


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"resourceVersion": "2"}}, id="its version"),
        pytest.param({"metadata": {"generation": 2}}, id="its generation"),
        pytest.param({"metadata": {"managedFields": [{"manager": "me"}]}}, id="who wrote what"),
        pytest.param({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}, id="our condition"),
        pytest.param({"status": {"qosClass": "Burstable"}}, id="its class of service"),
    ],
)
def test_status_and_bookkeeping_are_no_event(now):
    assert pod_update(parsed(), parsed(**now)) is None


def test_a_change_that_has_an_event_of_its_own_is_no_general_update_as_well():
    now = parsed(labels={"a": "b"}, **ANNOTATED)
    assert pod_update(parsed(), now) == ClusterEvent(POD, Action.UPDATE_POD_LABEL)


@pytest.mark.parametrize("field", ["resourceClaimStatuses", "extendedResourceClaimStatus"])
def test_a_claim_that_was_made_for_the_pod_has_an_event_of_its_own(field):
    event = pod_update(parsed(), parsed(status={field: [{"name": "gpu", "resourceClaimName": "web-gpu"}]}))
    assert event == ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)


def test_a_plugin_without_hints_is_asked_about_an_annotation():
    h = Harness()
    h.rejected("p", "Stranger")
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"backoff": 1}


def test_a_gate_without_hints_is_asked_about_an_annotation():
    h = Harness()
    h.pre_enqueue = lambda pod: (
        None if pod.raw["metadata"].get("annotations") else unresolvable("not yet").by("Stranger")
    )
    h.add("p")
    assert h.counts() == {"gated": 1}
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"active": 1}


def test_a_plugin_that_asks_for_labels_only_is_not_asked_about_an_annotation():
    h = Harness()
    h.hints["Labels"] = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL)),)
    h.rejected("p", "Labels")
    h.queue.update(h.pod("p", **ANNOTATED))
    assert h.counts() == {"unschedulable": 1}


def test_an_annotation_that_changes_in_flight_counts_when_the_attempt_fails():
    h = Harness()
    h.add("p")
    queued = h.queue.pop()
    h.queue.update(h.pod("p", **ANNOTATED))
    h.queue.reject(queued, ["Stranger"])
    assert h.counts() == {"backoff": 1}


def test_of_the_default_plugins_only_the_one_that_kube_scheduler_asks_is_asked_about_any_update():
    features = Features(None)
    handle = EngineHandle(Cache(), features, cluster=None, clock=lambda: 0.0)
    hints = Framework(default_profile("podwright", PLUGINS, features), PLUGINS, handle).hints
    assert [name for name in hints if registered(hints, name, OTHER)] == ["NodeDeclaredFeatures"]
