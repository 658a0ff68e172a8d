"""A list that is cut into the texts of its objects has the same objects as the parsed list, whatever its text."""

from __future__ import annotations

import random

import orjson
import pytest
from benchmarks.start_at_scale import Pages, node, pod

from podwright.core.objects.pod import SPEC_CACHE, PodText
from podwright.kube.client.errors import UnreachableError
from podwright.kube.client.list_text import loads_page, loads_pod_event, loads_pods

PODS = Pages(6, pod, 3, templates=2).page(0, 4, version=7)
NODES = Pages(6, node, 6, templates=2).page(0, 4, version=7)
MUTATIONS = 1_500


@pytest.fixture(autouse=True)
def _nothing_known():
    SPEC_CACHE.clear()


def without_managed(raw):
    metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    return {**raw, "metadata": metadata}


def whole(raw):
    return raw.whole() if type(raw) is PodText else raw


def test_each_object_is_read_when_its_turn_comes():
    page = loads_page(NODES)
    assert len(page["items"]) == 4
    assert page["metadata"] == orjson.loads(NODES)["metadata"]
    first, second, *_ = page["items"]
    assert [first, second] == orjson.loads(NODES)["items"][:2]


def test_pods_are_texts():
    pods = list(loads_pods(PODS)["items"])
    assert [type(each) for each in pods] == [PodText] * 4
    assert [each.whole() for each in pods] == orjson.loads(PODS)["items"]
    assert pods[0].spec is pods[2].spec


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"metadata":{},"items":[]}', id="no items"),
        pytest.param(b'{"metadata":{},"items":null}', id="null"),
        pytest.param(b'{"items":[{"metadata":{"name":"a"}}],"metadata":{}}', id="items first"),
        pytest.param(b'{"metadata":{},"items":[{"kind":"Pod","metadata":{"name":"a"}}]}', id="another order"),
        pytest.param(b'{"metadata":{},"items":[{"metadata":{"name":"a"}},{"kind":"B"}]}', id="another second"),
        pytest.param(b'{"metadata":{},"items":[{"metadata":{"name":"a"}}]}\n', id="the end of a line"),
        pytest.param(
            b'{"metadata":{},"items":[{"metadata":{"name":"a"},"x":[{"metadata":{"name":"b"}},{"metadata":{"name":"c"}}]}]}',
            id="objects within",
        ),
        pytest.param(
            orjson.dumps({"metadata": {}, "items": [{"metadata": {"name": 'a"}},{"metadata":{"name":"'}}]}), id="a trap"
        ),
    ],
)
def test_other_lists_are_the_same_too(text):
    page, parsed = loads_pods(text), orjson.loads(text)
    assert {**page, "items": [whole(each) for each in page["items"] or ()]} == {
        **parsed,
        "items": parsed["items"] or [],
    }


def test_what_is_no_json_is_no_list():
    with pytest.raises(UnreachableError, match="not JSON"):
        list(loads_page(NODES.replace(b'"status":{', b'"status":{{'))["items"])
    with pytest.raises(orjson.JSONDecodeError):
        loads_page(b"<html>")


def parts(page):
    return [[each.get(key) for key in ("metadata", "spec", "status")] for each in page["items"]]


def mutated(text, randoms):
    at = randoms.randrange(len(text))
    pieces = (b"", b'"', b"{", b"}", b"]", b",", b'},"status":{', b',"spec":{', b'},{"metadata":{"name":"', b"\\")
    return text[:at] + randoms.choice(pieces) + text[at + randoms.randrange(3) :]


def test_a_changed_text_never_reads_as_something_else():
    """Except for managed fields, which are not looked at."""
    randoms = random.Random(31)
    base = orjson.dumps({**orjson.loads(PODS), "items": [without_managed(raw) for raw in orjson.loads(PODS)["items"]]})
    read = 0
    for _ in range(MUTATIONS):
        text = mutated(base, randoms)
        try:
            expected = parts(orjson.loads(text))
        except (orjson.JSONDecodeError, KeyError):
            expected = None
        try:
            found = parts(loads_pods(text))
        except (orjson.JSONDecodeError, UnreachableError, KeyError):
            found = None
        if expected is None:
            assert found is None, text
            continue
        assert found is not None, text
        assert found[-len(expected) :] == expected, text
        read += 1
    assert read > MUTATIONS / 10


def event(kind, raw):
    return b'{"type":"%b","object":{"kind":"Pod","apiVersion":"v1",%b}' % (kind, orjson.dumps(raw)[1:])


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_of_a_pod_has_its_text(kind):
    raw = orjson.loads(PODS)["items"][0]
    found = loads_pod_event(event(kind.encode(), raw))
    assert (found["type"], type(found["object"]), found["object"].whole()) == (kind, PodText, raw)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}', id="bookmark"),
        pytest.param(event(b"ADDED", {"metadata": {"name": "a"}, "spec": {}, "status": {}}), id="no node"),
        pytest.param(event(b"OTHER", orjson.loads(PODS)["items"][0]), id="another kind of event"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":410}}', id="an error"),
    ],
)
def test_other_events_are_parsed(line):
    assert loads_pod_event(line) == orjson.loads(line)
