"""Watches: order, resuming, selectors, bookmarks, expiry."""

import pytest

from .conftest import MERGE


async def test_changes_arrive_in_order_with_increasing_revisions(api):
    async with api.watch("~configmaps", resourceVersion=await api.revision("~configmaps")) as watch:
        await api.config("a")
        await api.config("b")
        await api.ok("PATCH", "~configmaps/a", {"data": {"x": "1"}}, MERGE)
        await api.ok("DELETE", "~configmaps/b")
        events = [await watch.next() for _ in range(4)]
    seen = [(event, obj["metadata"]["name"]) for event, obj in events]
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    revisions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert revisions == sorted(set(revisions))
    assert {(obj["kind"], obj["apiVersion"]) for _, obj in events} == {("ConfigMap", "v1")}


async def test_a_watch_without_revision_starts_with_the_existing_objects(api):
    await api.config("a")
    await api.config("b")
    async with api.watch("~configmaps", fieldSelector="metadata.name!=kube-root-ca.crt") as watch:
        assert sorted(await watch.types_and_names(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.config("c")
        assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_a_watch_resumes_after_the_given_revision(api):
    first = await api.config("a")
    second = await api.config("b")
    await api.config("c")
    async with api.watch("~configmaps", resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert await watch.types_and_names(2) == [("ADDED", "b"), ("ADDED", "c")]
    async with api.watch("~configmaps", resourceVersion=second["metadata"]["resourceVersion"]) as watch:
        assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_a_revision_that_is_not_a_number_is_rejected(api):
    answer = await api("GET", "~configmaps", watch="true", resourceVersion="yesterday")
    assert answer.status >= 400
    assert 'resourceVersion: Invalid value: "yesterday"' in answer.message


async def test_a_watch_of_unbound_pods_reports_a_binding_as_deleted(api):
    await api.pod("free")
    revision = await api.revision()
    async with api.watch("~pods", fieldSelector="spec.nodeName=", resourceVersion=revision) as watch:
        await api.bind("free", "some-node")
        event, pod = await watch.next()
        bound = await api.ok("GET", "~pods/free")
        assert (event, pod["metadata"]["name"]) == ("DELETED", "free")
        assert "nodeName" not in pod["spec"], "the event has the last matching version"
        assert pod["metadata"]["resourceVersion"] == bound["metadata"]["resourceVersion"]
        await api.ok("PATCH", "~pods/free", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        assert await watch.silent()


async def test_a_watch_of_a_nodes_pods_reports_a_binding_as_added(api):
    await api.pod("free")
    revision = await api.revision()
    async with api.watch("~pods", fieldSelector="spec.nodeName=some-node", resourceVersion=revision) as watch:
        await api.bind("free", "some-node")
        event, pod = await watch.next()
        assert (event, pod["spec"]["nodeName"]) == ("ADDED", "some-node")
        await api.ok("PATCH", "~pods/free", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        assert (await watch.next())[0] == "MODIFIED"


@pytest.mark.parametrize(
    "selector, names",
    [
        pytest.param("spec.schedulerName=ours", {"ours"}, id="one scheduler's pods"),
        pytest.param("spec.schedulerName!=ours,spec.nodeName=", {"theirs"}, id="unbound pods of all other schedulers"),
        pytest.param("spec.nodeName!=", {"bound"}, id="bound pods"),
        pytest.param("metadata.name==ours", {"ours"}, id="one pod, written =="),
        pytest.param("status.phase!=Pending", set(), id="pods past Pending, of which there are none"),
    ],
)
async def test_a_field_selector_filters_a_watch(api, selector, names):
    await api.pod("ours", schedulerName="ours")
    await api.pod("theirs", schedulerName="theirs")
    await api.pod("bound", schedulerName="theirs")
    await api.bind("bound", "some-node")
    async with api.watch("~pods", fieldSelector=selector) as watch:
        assert {name for _, name in await watch.types_and_names(len(names))} == names
        assert await watch.silent()


async def test_an_object_is_deleted_when_it_stops_matching_and_added_when_it_matches_again(api):
    await api.config("a")
    async with api.watch("~configmaps", labelSelector="team in (red, blue)") as watch:
        for labels, event in (({"team": "red"}, "ADDED"), ({"team": "blue"}, "MODIFIED"), ({"team": "x"}, "DELETED")):
            await api.ok("PATCH", "~configmaps/a", {"metadata": {"labels": labels}}, MERGE)
            kind, obj = await watch.next()
            assert kind == event
        assert obj["metadata"]["labels"] == {"team": "blue"}


async def test_an_unsupported_field_selector_is_rejected(api):
    answer = await api("GET", "~pods", fieldSelector="spec.hostname=x")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "field label not supported: spec.hostname" in answer.message


async def test_initial_events_end_with_a_bookmark(api):
    await api.config("a")
    options = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch("~configmaps", fieldSelector="metadata.name=a", **options) as watch:
        assert await watch.types_and_names(1) == [("ADDED", "a")]
        event, obj = await watch.next()
        assert (event, obj["kind"]) == ("BOOKMARK", "ConfigMap")
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(obj["metadata"]["resourceVersion"]) > 0


@pytest.mark.slow
async def test_a_watch_can_resume_from_the_bookmark_that_precedes_its_timeout(api):
    revision = await api.revision("~configmaps")
    options = {"allowWatchBookmarks": "true", "timeoutSeconds": "10", "fieldSelector": "metadata.name=z"}
    for number in range(6):  # a server that is busy at that moment sends none
        async with api.watch("~configmaps", resourceVersion=revision, **options) as watch:
            other = await api.config(f"a-{number}")
            events = await watch.rest()
        if events:
            break
    assert {event for event, _ in events} == {"BOOKMARK"}
    revisions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert revisions == sorted(revisions)
    assert revisions[0] >= int(revision)
    resumed = events[-1][1]["metadata"]["resourceVersion"]
    assert int(resumed) >= int(other["metadata"]["resourceVersion"])
    async with api.watch("~configmaps", resourceVersion=resumed) as watch:
        await api.config("b")
        assert await watch.types_and_names(1) == [("ADDED", "b")]


async def test_a_watch_of_all_namespaces(api):
    options = {"resourceVersion": await api.revision("~configmaps"), "fieldSelector": "metadata.name=a"}
    async with api.watch("/api/v1/configmaps", **options) as watch:
        await api.config("a")
        event, obj = await watch.next()
        assert (event, obj["metadata"]["namespace"]) == ("ADDED", api.namespace)


async def test_a_deleted_object_has_the_revision_of_its_deletion(api):
    created = await api.config("a", x="1")
    async with api.watch("~configmaps", resourceVersion=created["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", "~configmaps/a")
        event, obj = await watch.next()
    assert (event, obj["data"]) == ("DELETED", {"x": "1"})
    assert int(obj["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
