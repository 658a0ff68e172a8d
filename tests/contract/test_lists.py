"""Lists: pages, selectors, and the form of items."""

import pytest

from .conftest import MERGE


async def names_of(api, path="~configmaps", **query):
    return (await api("GET", path, **query)).names


async def test_a_list_is_sorted_by_name(api):
    for name in ("b", "c", "a"):
        await api.config(name)
    assert await names_of(api) == ["a", "b", "c"]


async def test_items_of_built_in_kinds_have_no_kind_and_api_version(api):
    await api.config("a")
    body = await api.ok("GET", "~configmaps")
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in body["items"][0]
    assert "apiVersion" not in body["items"][0]


async def test_all_pages_show_the_snapshot_of_the_first(api):
    for number in range(5):
        await api.config(f"c-{number}")
    first = await api.ok("GET", "~configmaps", limit="2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["c-0", "c-1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ok("DELETE", "~configmaps/c-3")
    await api.config("c-9")
    token = first["metadata"]["continue"]
    second = await api.ok("GET", "~configmaps", limit="2", **{"continue": token})
    assert [item["metadata"]["name"] for item in second["items"]] == ["c-2", "c-3"]
    last = await api.ok("GET", "~configmaps", limit="2", **{"continue": second["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in last["items"]] == ["c-4"]
    assert "continue" not in last["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }


async def test_a_watch_from_the_revision_of_a_paged_list_shows_later_changes(api):
    await api.config("a")
    await api.config("b")
    first = await api.ok("GET", "~configmaps", limit="1")
    await api.config("c")
    async with api.watch("~configmaps", resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_an_unknown_continue_token_is_rejected(api):
    answer = await api("GET", "~configmaps", limit="1", **{"continue": "nonsense"})
    assert answer.status in (400, 410)


async def test_pages_contain_only_selected_objects(api):
    for number in range(4):
        await api.config(f"c-{number}")
    for number in (0, 3):
        await api.ok("PATCH", f"~configmaps/c-{number}", {"metadata": {"labels": {"in": "yes"}}}, MERGE)
    first = await api.ok("GET", "~configmaps", limit="1", labelSelector="in=yes")
    assert "remainingItemCount" not in first["metadata"]
    token = {"continue": first["metadata"]["continue"]}
    assert await names_of(api, limit="1", labelSelector="in=yes", **token) == ["c-3"]


@pytest.mark.parametrize(
    "selector, names",
    [
        pytest.param("app=web", ["one"], id="equal"),
        pytest.param("app==web", ["one"], id="equal, written =="),
        pytest.param("app!=web", ["none", "two"], id="unequal includes those without the label"),
        pytest.param("app", ["one", "two"], id="exists"),
        pytest.param("!app", ["none"], id="does not exist"),
        pytest.param("app in (web, db)", ["one", "two"], id="in"),
        pytest.param("app notin (web)", ["none", "two"], id="notin includes those without the label"),
        pytest.param("app in (web,db),tier=1", ["one"], id="all requirements together"),
        pytest.param("example.com/app=x", ["two"], id="a key with a prefix"),
        pytest.param("tier=", [], id="an empty value is a value"),
    ],
)
async def test_a_label_selector_filters_a_list(api, selector, names):
    labels = {"one": {"app": "web", "tier": "1"}, "two": {"app": "db", "example.com/app": "x"}, "none": {}}
    for name, mine in labels.items():
        await api.ok("POST", "~configmaps", {"metadata": {"name": name, "labels": mine}})
    assert await names_of(api, labelSelector=selector) == names


@pytest.mark.parametrize("selector", ["a in (", "=x", "a==b==c", "a b"])
async def test_a_malformed_label_selector_is_rejected(api, selector):
    answer = await api("GET", "~configmaps", labelSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_field_selector_filters_a_list(api):
    await api.pod("free")
    await api.pod("bound")
    await api.bind("bound", "some-node")
    assert await names_of(api, "~pods", fieldSelector="spec.nodeName=some-node,status.phase=Pending") == ["bound"]
    assert await names_of(api, "~pods", fieldSelector="spec.nodeName=") == ["free"]
    assert await names_of(api, "~pods", fieldSelector="spec.schedulerName=unused-scheduler") == ["bound", "free"]
    everywhere = f"metadata.namespace={api.namespace},metadata.name!=free"
    assert await names_of(api, "/api/v1/pods", fieldSelector=everywhere) == ["bound"]


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a,b", r"a\,b"), ("a=b", r"a\=b"), (r"a\b", r"a\\b"), ("a\\", "a\\\\"), (r"\,", r"\\\,"), ("☃", "☃")],
)
async def test_special_characters_in_a_field_selector_are_escaped(api, name, escaped):
    await api.pod("plain")
    await api.pod("special", schedulerName=name)
    assert await names_of(api, "~pods", fieldSelector=f"spec.schedulerName={escaped}") == ["special"]
    assert await names_of(api, "~pods", fieldSelector=f"spec.schedulerName!={escaped},spec.nodeName=") == ["plain"]


@pytest.mark.parametrize("selector", ["spec.schedulerName=a=b", "spec.schedulerName=a\\b", "spec.schedulerName=a\\"])
async def test_a_field_selector_with_special_characters_that_are_not_escaped_is_rejected(api, selector):
    answer = await api("GET", "~pods", fieldSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_list_in_a_missing_namespace_is_empty(api):
    assert await names_of(api, "/api/v1/namespaces/no-such-namespace/pods") == []
