"""Field selectors of pods."""

from __future__ import annotations

import pytest

from podwright.kube.watch.selectors import pending_pods_except, pending_pods_of, pods_that_may_ask_for
from podwright.sandbox.kinds import Kind
from podwright.sandbox.selectors import selection

PODS = Kind(
    group="", version="v1", plural="pods", kind="Pod", namespaced=True, short_names=(), subresources=frozenset()
)


def pod(scheduler):
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"schedulerName": scheduler}}


@pytest.mark.parametrize(
    "name", ["ml", "a,b", "a=b", "a\\b", "a\\", "\\,", ",", "=", "==", "!=", "a!=b,c", "\\\\,=", "\N{SNOWMAN}", "x\ny"]
)
def test_a_name_selects_its_own_pods_whatever_characters_it_has(name):
    """The sandbox reads selectors as k8s.io/apimachinery does: tests/contract compares it with the API server."""
    own = selection(PODS, "", "", pending_pods_of(name))
    others = selection(PODS, "", "", pending_pods_except(name))
    for scheduler in (name, "a", "b", "", name + ",", "x" + name):
        assert own.matches(pod(scheduler)) == (scheduler == name)
        assert others.matches(pod(scheduler)) != own.matches(pod(scheduler))


@pytest.mark.parametrize(
    ("name", "escaped"), [("a,b", r"a\,b"), ("a=b", r"a\=b"), ("a\\b", r"a\\b"), ("plain.name-1", "plain.name-1")]
)
def test_names_are_escaped_as_apimachinery_does(name, escaped):
    assert pending_pods_of(name) == f"spec.nodeName=,spec.schedulerName={escaped}"
    assert pending_pods_except(name, "b") == f"spec.nodeName=,spec.schedulerName!={escaped},spec.schedulerName!=b"


def test_pods_of_the_default_scheduler_are_left_out_unless_it_is_served():
    assert pods_that_may_ask_for({"a"}) == "spec.nodeName=,spec.schedulerName!=default-scheduler"
    assert pods_that_may_ask_for({"a", "default-scheduler"}) == "spec.nodeName="
