"""Services by the pods that they select, updated with each change."""

from __future__ import annotations

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.podindex.selecting import SelectorIndex
from podwright.core.state.services import ServiceSelectors
from support.state.allocations import bytes_left_by


def service(name, namespace="default", **selector):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}


@pytest.fixture
def store():
    return ObjectStore()


@pytest.fixture
def services(store):
    return ServiceSelectors(store)


def test_the_services_that_select_a_pod_are_combined(store, services):
    store.set("Service", service("a", app="web"))
    store.set("Service", service("b", tier="front"))
    store.set("Service", service("c", app="other"))
    store.set("Service", service("d", "elsewhere", zone="z"))
    assert services.labels_for("default", {"app": "web", "tier": "front", "zone": "z"}) == {
        "app": "web",
        "tier": "front",
    }


def test_services_that_exist_already_count(store):
    store.set("Service", service("a", app="web"))
    assert ServiceSelectors(store).labels_for("default", {"app": "web"}) == {"app": "web"}


def test_a_service_counts_as_it_is_now(store, services):
    store.set("Service", service("a", app="web"))
    store.set("Service", service("a", app="other"))
    assert services.labels_for("default", {"app": "web"}) == {}
    assert services.labels_for("default", {"app": "other"}) == {"app": "other"}


def test_of_two_services_with_one_selector_the_second_still_counts(store, services):
    for name in ("a", "b"):
        store.set("Service", service(name, app="web"))
    store.remove("Service", "a", "default")
    assert services.labels_for("default", {"app": "web"}) == {"app": "web"}
    store.remove("Service", "b", "default")
    assert services.labels_for("default", {"app": "web"}) == {}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"selector": {"app": 1}}, id="a value that is no string"),
        pytest.param({"selector": "app=web"}, id="a selector that is no object"),
        pytest.param({"selector": {}}, id="an empty selector"),
        pytest.param("web", id="a spec that is no object"),
    ],
)
def test_a_service_without_a_usable_selector_selects_no_pod(store, services, spec):
    store.set("Service", {**service("a"), "spec": spec})
    assert services.labels_for("default", {"app": "web"}) == {}


def test_a_change_costs_the_same_however_many_services_there_are(store, services, monkeypatch):
    for number in range(500):
        store.set("Service", service(f"s-{number}", app=f"app-{number}"))
    added = []
    add = SelectorIndex.add
    monkeypatch.setattr(SelectorIndex, "add", lambda *arguments: added.append(1) or add(*arguments))
    store.set("Service", service("s-0", app="changed"))
    assert services.labels_for("default", {"app": "changed"}) == {"app": "changed"}
    assert len(added) == 1


def test_services_that_are_gone_leave_no_memory_behind():
    store = ObjectStore()
    services = ServiceSelectors(store)

    def come_and_go():
        for number in range(3_000):
            store.set("Service", service("a", **{f"key-{number}": "value"}))
            assert services.labels_for("default", {f"key-{number}": "value"})
        store.remove("Service", "a", "default")
        compact_all()

    come_and_go()
    assert bytes_left_by(come_and_go) < 3_000 * 32
