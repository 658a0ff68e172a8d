"""A reflector keeps its sink current: through pages, bookmarks, broken and silent watches, 410 and malformed events."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import orjson
import pytest
from aiohttp import web

from podwright.core.objects.pod import PodText
from podwright.kube.client import pages
from podwright.kube.client.media_types import METADATA_LIST
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.kinds import POD
from podwright.kube.watch import audit as watch_audit
from podwright.kube.watch import reflector as module
from support.http.kit import forever, hangs_up, page, says, streams
from support.http.reflecting import Recording, event, expired, item, reflecting
from support.waiting import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "RETRY", replace(module.RETRY, shortest=0.001, longest=0.002))


def failures_in_a_row(monkeypatch):
    """Collects the number of failures that each pause is based on."""
    noted = []
    real = RetryPolicy.pause
    monkeypatch.setattr(
        RetryPolicy,
        "pause",
        lambda self, failures, error=None: (noted.append(failures), real(self, failures, error))[1],
    )
    return noted


async def test_it_lists_in_pages_and_then_watches_from_the_lists_version():
    first = page(item("a", 1), version=9, following="more")
    second = page(item("b", 2), version=9)
    async with reflecting(first, second) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 3)
        assert sink.objects == {"a": "1", "b": "2"}
        assert reflector.synced.is_set()
        one, two, watch = script.requests
        assert one.query == {"limit": "500"}
        assert two.query == {"limit": "500", "continue": "more"}
        assert (watch.query["watch"], watch.query["resourceVersion"]) == ("1", "9")
        assert watch.query["allowWatchBookmarks"] == "true"
        assert 300 <= int(watch.query["timeoutSeconds"]) < 600


async def test_what_is_held_back_is_handed_over_afterwards_in_its_order():
    watch = streams(event("ADDED", item("b", 2)), event("DELETED", item("b", 3)), then=forever)
    held = asyncio.Event()

    async def watch_once_held(request):
        await held.wait()
        return await watch(request)

    async with reflecting(page(item("a", 1), version=1), watch_once_held) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 2)
        reflector.hold_back()
        held.set()
        await until(lambda: reflector.blind_since is None)
        await asyncio.sleep(0.05)
        assert reflector.resource_version == 1
        reflector.go_on()
        await until(lambda: reflector.resource_version == 3)
        assert sink.dropped == ["b"]


async def test_a_list_is_held_back_too():
    first, second = page(item("a", 1), version=1), page(item("b", 2), version=2)
    async with reflecting(first, streams(then=forever), second) as (sink, script, reflector):
        await until(lambda: reflector.blind_since is None)
        reflector.hold_back()
        reflector.request_relist()
        await until(lambda: len(script.requests) == 3)
        await asyncio.sleep(0.05)
        assert (sink.objects, sink.dropped) == ({"a": "1"}, [])
        reflector.go_on()
        await until(lambda: sink.objects == {"b": "2"})
        assert sink.dropped == ["a"]


async def test_the_field_selector_is_sent_with_every_request():
    options = {"field_selector": "spec.nodeName=", "resource": POD}
    async with reflecting(page(version=1), **options) as (_, script, _r):
        await until(lambda: len(script.requests) == 2)
        for request in script.requests:
            assert request.query["fieldSelector"] == "spec.nodeName="
            assert request.path == "/api/v1/pods"


async def test_watch_events_reach_the_sink():
    watch = streams(
        event("ADDED", item("b", 2)), event("MODIFIED", item("a", 3)), event("DELETED", item("b", 4)), then=forever
    )
    async with reflecting(page(item("a", 1), version=1), watch) as (sink, *_):
        await until(lambda: sink.dropped == ["b"])
        assert sink.objects == {"a": "3"}


async def test_a_broken_watch_resumes_from_the_last_event_or_bookmark():
    async with reflecting(
        page(version=1),
        streams(event("ADDED", item("a", 5)), event("BOOKMARK", item("", 7))),
        hangs_up(),
        streams(event("ADDED", item("b", 8)), then=forever),
    ) as (sink, script, reflector):
        await until(lambda: "b" in sink.objects)
        assert [r.query.get("resourceVersion") for r in script.requests[1:]] == ["1", "7", "7"]
        assert reflector.list_count == 1


@pytest.mark.parametrize(
    "gone", [pytest.param(streams(expired()), id="within the watch"), pytest.param(says(410), id="at its start")]
)
async def test_after_410_it_relists_and_drops_objects_that_vanished(gone):
    async with reflecting(
        page(item("a", 1), item("b", 1), version=1), gone, page(item("b", 1), item("c", 9), version=9)
    ) as (sink, script, _):
        await until(lambda: len(script.requests) == 4)
        assert sink.objects == {"b": "1", "c": "9"}
        assert sink.dropped == ["a"]


async def test_after_410_between_pages_it_starts_the_list_again():
    async with reflecting(
        page(item("a", 1), version=1, following="more"), says(410), page(item("b", 2), version=2)
    ) as (sink, script, reflector):
        await until(reflector.synced.is_set)
        assert "continue" not in script.requests[2].query
        assert sink.objects["b"] == "2"


async def test_a_server_that_ends_lists_at_half_delays_the_start_and_no_object_is_dropped():
    """Each continue token has expired. What was listed is known meanwhile, and counts once a list is complete."""
    half = page(item("a", 1), item("b", 1), version=1, following="more")
    recovered = asyncio.Event()

    async def whole(request):
        await recovered.wait()
        return await page(item("a", 1), item("b", 1), item("c", 1), version=2)(request)

    async with reflecting(*[half, says(410)] * 5, whole) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 11)
        assert not reflector.synced.is_set()
        assert sink.objects.keys() == {"a", "b"}
        recovered.set()
        await until(reflector.synced.is_set)
        assert sink.objects.keys() == {"a", "b", "c"}
        assert sink.dropped == []
        assert ["continue" in request.query for request in script.requests[:10]] == [False, True] * 5


async def test_a_server_that_pages_slowly_delays_the_start_and_is_not_asked_for_a_page_twice():
    """Listed objects are known meanwhile. Only a page that did not arrive is asked for again."""
    gates = [asyncio.Event() for _ in range(3)]

    def slowly(gate, answer):
        async def answers(request):
            await gate.wait()
            return await answer(request)

        return answers

    first, last = page(item("a", 1), version=1, following="more"), page(item("b", 1), version=1)
    answers = map(slowly, gates, [first, says(504), last])
    async with reflecting(*answers) as (sink, script, reflector):
        for number, (gate, known) in enumerate(zip(gates, ([], ["a"], ["a"]), strict=True), start=1):
            await until(
                lambda number=number, known=known: len(script.requests) == number and list(sink.objects) == known
            )
            assert not reflector.synced.is_set()
            gate.set()
        await until(reflector.synced.is_set)
        assert list(sink.objects) == ["a", "b"]
        assert [request.query.get("continue") for request in script.requests[:3]] == [None, "more", "more"]
        assert (reflector.list_count, sink.dropped) == (1, [])


async def test_other_tasks_run_while_many_objects_are_dropped_that_a_list_lacks(monkeypatch):
    """All pods of a large cluster may be gone after a pause. With no time for a slice, others run after each of
    them.
    """
    monkeypatch.setattr(pages, "SLICE_SECONDS", 0.0)
    turns = []

    async def take_turns():
        while True:
            turns.append(len(sink.dropped))
            await asyncio.sleep(0)

    many = [item(f"pod-{number}", 1) for number in range(500)]
    async with reflecting(page(*many, version=1), streams(expired()), page(version=9)) as (sink, _, reflector):
        other = asyncio.create_task(take_turns())
        await until(lambda: reflector.list_count == 2)
        other.cancel()
        assert len(sink.dropped) == 500
        assert not reflector.known
        assert len({dropped for dropped in turns if 0 < dropped < 500}) > 400


async def test_other_tasks_run_while_many_objects_are_deleted_at_once(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", 1_000)
    turns = []

    async def take_turns():
        while True:
            turns.append(len(sink.dropped))
            await asyncio.sleep(0)

    many = [item(f"pod-{number}", 1) for number in range(500)]
    deleted = b"".join(
        orjson.dumps(event("DELETED", item(f"pod-{number}", 2 + number))) + b"\n" for number in range(500)
    )
    answers = page(*many, version=1), streams(deleted, then=forever)
    async with reflecting(*answers) as (sink, _, reflector):
        other = asyncio.create_task(take_turns())
        await until(lambda: len(sink.dropped) == 500)
        other.cancel()
        assert not reflector.known
        assert len(set(turns)) > len(deleted) // 1_000


async def test_a_silent_watch_is_replaced_if_the_server_has_newer_versions(monkeypatch):
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.05)
    async with reflecting(
        page(version=9),
        streams(then=forever),
        page(version=10),
        streams(event("ADDED", item("a", 10)), then=forever),
    ) as (sink, script, reflector):
        await until(lambda: "a" in sink.objects)
        probe, again = script.requests[2:4]
        assert (probe.query["resourceVersion"], probe.query["fieldSelector"]) == ("0", "metadata.name=nobody")
        assert (again.query["watch"], again.query["resourceVersion"]) == ("1", "9")
        assert reflector.list_count == 1


async def test_a_silent_watch_continues_if_the_server_has_nothing_newer(monkeypatch):
    """kube-apiserver sends no bookmark while a kind has not changed since its watch began."""
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.05)
    line = orjson.dumps(event("ADDED", item("a", 10))) + b"\n"

    async def pausing(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line[:20])
        await until(lambda: len(script.requests) >= 4)
        await response.write(line[20:])
        await forever()
        return response

    same = page(version=9)
    async with reflecting(same, pausing, same, same, default=same) as (sink, script, _):
        await until(lambda: "a" in sink.objects)
        assert [request.query.get("watch") for request in script.requests[:4]] == [None, "1", None, None]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([hangs_up(), hangs_up()], id="no response, also when it is asked again"),
        pytest.param([says(500)], id="an error"),
    ],
)
async def test_a_silent_watch_is_replaced_if_the_server_cannot_be_asked(monkeypatch, answers):
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.05)
    async with reflecting(
        page(version=9), streams(then=forever), *answers, streams(event("ADDED", item("a", 10)), then=forever)
    ) as (sink, *_):
        await until(lambda: "a" in sink.objects)


async def test_server_errors_are_retried():
    async with reflecting(says(500), says(503), says(403), page(item("a", 1), version=1)) as (sink, *_):
        await until(lambda: "a" in sink.objects)


async def test_an_event_in_many_chunks_is_one_event():
    async def split(request):
        line = (
            b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"2","x":"' + b"y" * 500_000 + b'"}}}\n'
        )

        async def rest():
            pass

        return await streams(*(line[i : i + 70_000] for i in range(0, len(line), 70_000)), then=forever)(request)

    async with reflecting(page(version=1), split) as (sink, *_):
        await until(lambda: sink.objects == {"a": "2"})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>\n", id="not JSON"),
        pytest.param(b"[]\n", id="not an object"),
        pytest.param(b'{"type":"ADDED"}\n', id="no object in the event"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":null}}\n', id="no metadata"),
        pytest.param(b'{"type":"MODIFIED","object":[]}\n', id="a list in place of an object"),
    ],
)
async def test_a_malformed_event_triggers_a_relist(line):
    async with reflecting(page(version=1), streams(line), page(item("a", 5), version=5)) as (sink, *_):
        await until(lambda: sink.objects == {"a": "5"})


async def test_a_malformed_item_of_a_list_is_ignored():
    async with reflecting(page({"metadata": None}, item("a", 1), "text", version=1)) as (sink, _, reflector):
        await until(reflector.synced.is_set)
        assert sink.objects == {"a": "1"}


class Shared(Recording):
    """A sink that learns of objects from other sources too."""

    def held(self):
        return set(self.objects)


async def test_a_list_also_drops_objects_from_other_sources_that_it_lacks():
    sink = Shared()

    async def meanwhile(request):
        sink.objects["new"] = "from another source, after the list was made"
        return await page(item("a", 3), version=3)(request)

    async def before(request):
        sink.objects["ghost"] = "from another source"
        return await streams(expired())(request)

    async with reflecting(page(item("a", 1), version=1), before, meanwhile, sink=sink) as (sink, *_):
        await until(lambda: "ghost" in sink.dropped)
        assert sink.objects.keys() == {"a", "new"}


async def test_the_pauses_after_repeated_410_grow(monkeypatch):
    monkeypatch.setattr(module, "RETRY", replace(module.RETRY, shortest=0.001, longest=1.0))
    failures = failures_in_a_row(monkeypatch)
    answers = [page(version=1), says(410)] * 6
    async with reflecting(*answers) as (_, script, _r):
        await until(lambda: len(script.requests) >= 12)
        assert failures[:5] == [1, 2, 3, 4, 5]


async def test_a_very_long_retry_after_is_cut_short(monkeypatch):
    monkeypatch.setattr(module, "RETRY", replace(module.RETRY, longest_retry_after=0.01))
    async with reflecting(page(version=1), says(429, **{"Retry-After": "86400"})) as (_, script, _r):
        await until(lambda: len(script.requests) == 3)


async def test_an_audit_that_finds_missed_events_triggers_a_relist(monkeypatch):
    monkeypatch.setattr(watch_audit, "SHORTEST_SECONDS", 0.01)
    monkeypatch.setattr(watch_audit, "LATE_SECONDS", 0.0)
    current_page = page(item("a", 5), item("c", 6), version=6)
    lists = [page(item("a", 1), item("b", 1), version=1), streams(then=forever), current_page, current_page]
    async with reflecting(*lists, default=current_page) as (sink, script, reflector):
        await until(lambda: reflector.list_count >= 2)
        assert sink.objects == {"a": "5", "c": "6"}
        assert sink.dropped == ["b"]
        assert script.requests[2].headers["Accept"] == METADATA_LIST


async def test_the_pauses_after_slow_failures_grow(monkeypatch):
    """An overloaded server takes its time to refuse a watch."""
    monkeypatch.setattr(module, "QUICK_END_SECONDS", 0.01)

    async def slowly(request):
        await asyncio.sleep(0.03)
        return await says(503)(request)

    failures = failures_in_a_row(monkeypatch)
    async with reflecting(page(version=1), *[slowly] * 4) as (_, script, _r):
        await until(lambda: len(script.requests) >= 5)
        assert failures[:3] == [1, 2, 3]


async def test_an_event_that_is_too_long_is_given_up_and_the_list_has_its_object(monkeypatch):
    monkeypatch.setattr(module, "LINE_LIMIT", 10_000)

    async def endless(request):
        return await streams(*[b"x" * 1_000] * 20, then=forever)(request)

    async with reflecting(page(version=1), endless, page(item("a", 5), version=5)) as (sink, *_):
        await until(lambda: sink.objects == {"a": "5"})


async def test_refused_credentials_are_not_logged_for_each_watch(caplog):
    caplog.set_level("INFO")
    watch = streams(event("ADDED", item("a", 2)), then=forever)
    async with reflecting(page(version=1), says(401), watch) as (sink, *_):
        await until(lambda: sink.objects == {"a": "2"})
    assert not [record for record in caplog.records if "reflector" in record.name and "trying" in record.getMessage()]


async def test_a_relist_requested_while_the_watch_opens_happens_at_once():
    async def opening(request):
        reflector.request_relist()
        return await streams(then=forever)(request)

    async with reflecting(page(version=1), opening, page(item("a", 5), version=5)) as (sink, _, reflector):
        await until(lambda: "a" in sink.objects)


class TestBlindness:
    async def test_the_view_is_blind_until_a_watch_is_open(self):
        held = asyncio.Event()
        async with reflecting(page(version=1), streams(then=held.wait), default=streams(then=forever)) as (
            _,
            script,
            reflector,
        ):
            assert reflector.blind_since is not None
            await until(lambda: reflector.blind_since is None)
            held.set()
            await until(lambda: len(script.requests) == 3)
            await until(lambda: reflector.blind_since is None)

    async def test_watches_that_end_at_once_leave_the_view_blind_since_the_first_end(self):
        async with reflecting(page(version=1), default=says(500)) as (_, script, reflector):
            since = reflector.blind_since
            assert since is not None
            await until(lambda: len(script.requests) > 3)
            assert reflector.blind_since == since
        async with reflecting(page(version=1), default=streams()) as (_, script, reflector):
            since = reflector.blind_since
            await until(lambda: len(script.requests) > 3)
            assert reflector.blind_since in (None, since)


# Reaching a version


async def test_a_version_that_the_watch_has_passed_is_reached_at_once():
    async with reflecting(page(version=9)) as (_, script, reflector):
        await until(lambda: len(script.requests) == 2)
        await reflector.reach(9)
        assert len(script.requests) == 2


async def test_a_busy_watch_reaches_a_version_by_itself(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 60.0)
    arrived = asyncio.Event()
    watch = streams(event("ADDED", item("b", 12)), first=arrived.wait, then=forever)
    async with reflecting(page(version=9), watch) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 2)
        reaching = asyncio.create_task(reflector.reach(12))
        await asyncio.sleep(0.02)
        assert not reaching.done()
        arrived.set()
        await reaching
        assert sink.objects == {"b": "12"}
        assert len(script.requests) == 2


async def test_a_quiet_watch_that_has_all_of_a_list_goes_on(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 0.0)
    watch, same = streams(then=forever), page(item("a", 1), version=12)
    async with reflecting(page(item("a", 1), version=9), watch, same) as (_, script, reflector):
        await until(lambda: len(script.requests) == 2)
        await reflector.reach(12)
        assert "PartialObjectMetadataList" in script.requests[2].headers["Accept"]
        assert (reflector.list_count, len(script.requests)) == (1, 3)


async def test_a_watch_of_few_objects_that_lacks_something_is_followed_by_a_list(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SHOWN_SECONDS", 0.05)
    watch, newer = streams(then=forever), page(item("b", 12), version=12)
    async with reflecting(page(item("a", 1), version=9), watch, newer, newer) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 2)
        await reflector.reach(12)
        assert sink.objects == {"b": "12"}
        assert "watch" not in script.requests[3].query
        assert reflector.list_count == 2


async def test_a_quiet_watch_of_more_objects_is_compared_with_a_list_of_metadata(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 0.0)
    monkeypatch.setattr(module, "SMALL", 0)
    arrived = asyncio.Event()
    changes = event("ADDED", item("b", 11)), event("DELETED", item("c", 10))
    watch, newer = streams(*changes, first=arrived.wait, then=forever), page(item("a", 1), item("b", 11), version=12)
    first = page(item("a", 1), item("c", 2), version=9)
    async with reflecting(first, watch, newer) as (sink, script, reflector):
        await until(lambda: len(script.requests) == 2)
        reaching = asyncio.create_task(reflector.reach(12))
        await until(lambda: len(script.requests) == 3)
        assert "PartialObjectMetadataList" in script.requests[2].headers["Accept"]
        await asyncio.sleep(0.05)
        assert not reaching.done()
        arrived.set()
        await reaching
        assert sink.objects == {"a": "1", "b": "11"}
        assert (reflector.list_count, len(script.requests)) == (1, 3)


async def test_a_list_that_the_watch_does_not_catch_up_with_is_not_taken_for_reached(monkeypatch):
    for name, value in (("NATURAL_SECONDS", 0), ("SMALL", 0), ("_AGAIN_SECONDS", 0.1)):
        monkeypatch.setattr(module, name, value)
    watch, newer, short = streams(then=forever), page(item("b", 11), version=12), streams(then=forever)
    async with reflecting(page(item("a", 1), version=9), watch, newer, page(version=12), short) as (
        _,
        script,
        reflector,
    ):
        await until(lambda: len(script.requests) == 2)
        reaching = asyncio.create_task(reflector.reach(12))
        await until(lambda: len(script.requests) > 4)
        assert not reaching.done()
        assert script.requests[4].query["timeoutSeconds"] == "3"
        reaching.cancel()


async def test_a_quiet_watch_of_many_objects_is_opened_again_to_get_a_bookmark(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 0.0)
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "MEDIUM", 0)
    watch, short = streams(then=forever), streams(event("BOOKMARK", item("", 12)))
    async with reflecting(page(item("a", 1), version=9), watch, page(version=12), short) as (_, script, reflector):
        await until(lambda: len(script.requests) == 2)
        await reflector.reach(12)
        await until(lambda: len(script.requests) == 5)
        _, _, consistent, forced, after = script.requests
        assert consistent.query == {"limit": "1"}
        assert (forced.query["watch"], forced.query["resourceVersion"], forced.query["timeoutSeconds"]) == (
            "1",
            "9",
            "3",
        )
        assert after.query["resourceVersion"] == "12"
        assert int(after.query["timeoutSeconds"]) >= 300
        assert reflector.list_count == 1


async def test_a_version_is_reached_although_the_first_attempt_to_force_it_fails(monkeypatch):
    monkeypatch.setattr(module, "NATURAL_SECONDS", 0.0)
    watch, newer = streams(then=forever), page(version=12)
    async with reflecting(page(version=9), watch, says(500), newer) as (_, script, reflector):
        await until(lambda: len(script.requests) == 2)
        await reflector.reach(12)
        assert len(script.requests) >= 4


class Texts(Recording):
    """A sink of pods that takes their texts."""

    takes_pod_texts = True

    def __init__(self):
        super().__init__()
        self.types = []
        self.together = []

    def held(self):
        return set(self.objects)

    def key(self, raw):
        if raw["metadata"]["name"] == "bad":
            raise KeyError("name")
        return super().key(raw)

    def put(self, raw):
        super().put(raw)
        self.types.append(type(raw))

    def put_all(self, raws):
        self.together.append([self.key(raw) for raw in raws])
        for raw in raws:
            self.put(raw)


async def test_a_sink_of_pods_gets_their_texts_from_lists_and_watches():
    own = {"spec": {"containers": [{"name": "a"}], "nodeName": "n"}, "status": {}}

    def pod(name, version):
        return {"metadata": {"name": name, "namespace": "x", "resourceVersion": str(version)}, **own}

    changed = event("MODIFIED", {"kind": "Pod", "apiVersion": "v1", **pod("a", 3)})
    watch = streams(changed, event("DELETED", {"kind": "Pod", "apiVersion": "v1", **pod("b", 4)}), then=forever)
    async with reflecting(page(pod("a", 1), pod("b", 1), version=2), watch, sink=Texts()) as (sink, *_):
        await until(lambda: sink.dropped == ["b"])
        assert sink.objects == {"a": "3"}
        assert sink.types == [PodText] * 3


async def test_pods_of_a_list_come_together_up_to_a_number_and_a_size():
    def pod(name, node="n", **metadata):
        own = {"spec": {"containers": [{"name": "a"}], **({"nodeName": node} if node else {})}, "status": {}}
        return {"metadata": {"name": name, "namespace": "x", "resourceVersion": "1", **metadata}, **own}

    short = [pod(f"pod-{number}") for number in range(module.AT_ONCE + 2)]
    long, unread = pod("long", annotations={"a": "x" * module.TOGETHER}), pod("unread", node="")
    halves = [pod(f"half-{number}", annotations={"a": "x" * (module.TOGETHER // 2 - 1000)}) for number in range(3)]
    listed = page(*short, long, pod("a"), pod("bad"), pod("b"), unread, pod("c"), *halves, version=2)
    async with reflecting(listed, streams(then=forever), sink=Texts()) as (sink, _, reflector):
        await reflector.synced.wait()
        names = [each["metadata"]["name"] for each in short]
        full, rest = names[: module.AT_ONCE], names[module.AT_ONCE :]
        several = [["a", "b"], ["unread"], ["c", "half-0", "half-1"], ["half-2"]]
        assert sink.together == [full, rest, ["long"], *several]


async def test_only_what_the_first_list_brings_is_left_out_of_collections():
    """Which would examine it again and again, while more and more comes."""
    gc.unfreeze()
    async with reflecting(page(item("a", 1), version=1), streams(then=forever), page(version=2)) as (
        sink,
        _,
        reflector,
    ):
        await until(lambda: reflector.blind_since is None)
        frozen = gc.get_freeze_count()
        assert frozen
        gc.unfreeze()
        reflector.request_relist()
        await until(lambda: not sink.objects)
        assert not gc.get_freeze_count()
