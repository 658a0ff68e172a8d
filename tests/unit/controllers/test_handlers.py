"""The handlers: what Kopf watches, and what it hands to the runtime."""

from __future__ import annotations

import kopf
import pytest

from podwright.controllers.handlers import register_watches
from support.controllers.kit import FakeRuntime, record_handlers
from support.objects.builders import make_pod

PODS = ("pods",)
POLICIES = ("podwright.dev", "v1alpha1", "schedulerpolicies")
LOCAL_POLICIES = ("podwright.dev", "v1alpha1", "localschedulerpolicies")


@pytest.fixture
def handlers(monkeypatch):
    return record_handlers(monkeypatch)


@pytest.mark.parametrize(
    "options, expected",
    [
        pytest.param({}, [PODS, POLICIES, LOCAL_POLICIES], id="all"),
        pytest.param({"kopf_watches_pods": False}, [POLICIES, LOCAL_POLICIES], id="pods come in without Kopf"),
        pytest.param({"readable": False}, [PODS], id="RBAC does not allow policies"),
    ],
)
async def test_kopf_watches_what_the_runtime_wants(handlers, options, expected):
    register_watches(kopf.OperatorRegistry(), FakeRuntime(**options))
    assert [handler.resource for handler in handlers] == expected


async def test_each_event_goes_to_its_intake(handlers):
    runtime = FakeRuntime()
    register_watches(kopf.OperatorRegistry(), runtime)
    for handler in handlers:
        await handler.function(event={"object": handler.resource})
    assert runtime.pending.events == [{"object": PODS}]
    assert runtime.policies.events == [{"object": POLICIES}]
    assert runtime.local_policies.events == [{"object": LOCAL_POLICIES}]


@pytest.mark.parametrize("serves", [True, False])
async def test_pods_are_filtered_by_what_the_policies_serve(handlers, serves):
    register_watches(kopf.OperatorRegistry(), FakeRuntime(serves=serves))
    assert handlers[0].filters["when"](body=kopf.Body(make_pod())) is serves
