"""Deeply nested JSON is read, and what is below the limit is null."""

from __future__ import annotations

import json

import orjson
import pytest

from podwright.kube.client import json_text
from podwright.kube.client.json_text import MAX_DEPTH, loads
from support.costs.call_counts import calls_of


def nested(depth, inner="1"):
    return '{"a":' * depth + inner + "}" * depth


def depth_of(value):
    depth = 0
    while isinstance(value, dict | list):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        depth += 1
    return depth


def test_ordinary_text_is_read_as_it_is():
    assert loads(b'{"a": [1, "{[\\"", null]}') == {"a": [1, '{["', None]}


@pytest.mark.parametrize("depth", [MAX_DEPTH + 100, 9_950, 100_000])
def test_other_objects_of_the_same_list_can_be_read(depth):
    text = f'{{"items": [{{"n": 1}}, {nested(depth)}, {"[" * depth}{"]" * depth}, {{"n": 2}}]}}'
    first, objects, lists, last = loads(text.encode())["items"]
    assert (first, last) == ({"n": 1}, {"n": 2})
    assert depth_of(objects) == depth_of(lists) == MAX_DEPTH - 2


@pytest.mark.parametrize(
    "string", ['"', "\\", '\\"', '\\\\"', "{", "[[[", "}", "\\u0022{", '{"', "\N{SNOWMAN}{", '\\\\\\"]'], ids=repr
)
def test_brackets_and_quotes_in_strings_do_not_count(string):
    value = {"key " + string: [string, {"deep": string}]}
    text = (
        f'{{"before": {json.dumps(value)}, "deep": {nested(2_000, json.dumps(value))}, "after": {json.dumps(value)}}}'
    )
    found = loads(text.encode())
    assert (found["before"], found["after"]) == (value, value)


def test_the_limit_is_the_first_level_that_is_cut(monkeypatch):
    monkeypatch.setattr(json_text, "MAX_DEPTH", 3)
    fill = nested(1_100)
    found = loads(f'[[[1]], [[[1]]], [[[1], 2]], {{"a": {{"b": {{}}}}}}, "[[[[", {fill}]'.encode())
    assert found == [[[1]], [[None]], [[None, 2]], {"a": {"b": None}}, "[[[[", {"a": {"a": None}}]


@pytest.mark.parametrize(
    "text", [b"", b"{", b'"', b"[" * 5_000, b"]" * 5_000, b"{[" * 5_000, b'["' * 3_000, b"\\" * 2_000]
)
def test_text_that_is_not_json_raises_the_parsers_error(text):
    with pytest.raises(orjson.JSONDecodeError):
        loads(text)


def test_the_work_does_not_grow_with_the_number_of_bytes():
    def calls(size):
        text = f'["{"x" * size}", {nested(2_000)}]'.encode()
        return calls_of(lambda: loads(text))

    assert calls(1_000_000) == calls(10_000)
