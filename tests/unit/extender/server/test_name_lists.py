"""Lists of names: their rows, their JSON and that of their scores, and which lists are remembered."""

import itertools

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.state.columns.table import NodeTable
from podwright.extender.server import name_lists as module
from podwright.extender.server.body_text import BodyText
from podwright.extender.server.name_lists import NameList, NameLists
from support.objects.builders import make_node
from support.state.allocations import bytes_left_by


class CountingTable(NodeTable):
    """Counts how often names are looked up."""

    def __init__(self, *names):
        super().__init__()
        self.lookups = 0
        for name in names:
            self.add(parse_node(make_node(name)))

    def slots_of(self, names):
        self.lookups += 1
        return super().slots_of(names)


def read(lists, value):
    return lists.read(BodyText(bytearray(orjson.dumps(value))), "", 1_000)


def test_rows_are_looked_up_again_only_when_nodes_come_or_go():
    table, names = CountingTable("a", "b"), NameList(["b", "x", "a"])
    assert names.slots(table).tolist() == [1, -1, 0]
    table.update(0, parse_node(make_node("a", labels={"new": "yes"})))
    assert names.slots(table).tolist() == [1, -1, 0]
    assert table.lookups == 1
    table.add(parse_node(make_node("x")))
    assert names.slots(table).tolist() == [1, 2, 0]
    table.remove(0)
    assert names.slots(table).tolist() == [1, 2, -1]
    other = CountingTable("x")
    assert names.slots(other).tolist() == [-1, 0, -1]
    assert (table.lookups, other.lookups) == (3, 1)


def test_some_of_the_names_have_their_rows_already():
    table, names = CountingTable("a", "b", "c"), NameList(["c", "a", "b"])
    names.slots(table)
    kept = names.only(np.array([0, 2]))
    assert kept.names == ["c", "b"]
    assert kept.slots(table).tolist() == [2, 1]
    assert table.lookups == 1


NAMES = st.lists(st.text() | st.text(alphabet='",\\ab{}') | st.text(alphabet="node-0", min_size=1), max_size=8)


@given(NAMES, st.booleans(), st.data())
def test_texts_and_scores_are_those_of_the_names(names, spaces, data):
    text = orjson.dumps(names).decode()
    found = read(NameLists(), names)
    if spaces:
        body = f"[ {text[1:-1]} ]".encode()
        found = NameLists().read(BodyText(bytearray(body)), "", 1_000)
    assert orjson.loads(found.text) == names
    scores = data.draw(st.lists(st.integers(0, 10), min_size=len(names), max_size=len(names)))
    for _ in range(2):  # the second time, from what is kept
        written = orjson.loads(found.encode_scores(np.array(scores, np.int64)))
        assert written == [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]


@pytest.mark.parametrize("short", [0, 1, 2, 3])
def test_zeros_and_equal_scores_are_left_out_of_lists_that_are_not_short(monkeypatch, short):
    monkeypatch.setattr(module, "SHORT", short)
    names = NameList(["a", "bb", "c"])
    for scores in itertools.product((0, 5, 10), repeat=3):
        written = orjson.loads(names.encode_scores(np.array(scores, np.int64)))
        expected = [{"Host": name, "Score": score} for name, score in zip(names.names, scores, strict=True)]
        differ = len(set(scores)) > 1
        assert written == [each for each in expected if short == 3 or (differ and each["Score"])]


@pytest.mark.parametrize("names", [["a", "b"], [], ["\N{LATIN SMALL LETTER U WITH DIAERESIS}"], ["a]"]])
def test_a_remembered_list_is_not_read_again(names):
    lists = NameLists()
    first = read(lists, names)
    assert read(lists, names) is not first
    lists.remember(first)
    assert read(lists, names) is first
    assert list(read(lists, [*names, "c"]).names) == [*names, "c"]


def test_names_that_are_kept_are_known_when_they_are_sent_again():
    lists = NameLists()
    kept = read(lists, ["a", "b", "c"]).only(np.array([0, 2]))
    lists.remember(kept)
    assert read(lists, ["a", "c"]) is kept


def test_the_memory_of_the_known_lists_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "KNOWN_BYTES", 10_000)
    lists = NameLists()
    for number in range(10):
        lists.remember(read(lists, [f"{number}-{each}" for each in range(20)]))
        assert lists.known_bytes <= 10_000
    assert lists.known_bytes > 5_000
    long = read(lists, ["x" * 3_000])
    lists.remember(long)
    assert read(lists, ["x" * 3_000]) is not long


@pytest.mark.parametrize("length", [1, 5, 20, 90])
def test_a_list_takes_no_more_memory_than_is_counted(length):
    body = orjson.dumps([f"{number:0{length}}" for number in range(20_000)])
    table = CountingTable("n1")
    found = []

    def use():
        found.append(NameLists().read(BodyText(bytearray(body)), "", 20_000))
        found[0].slots(table)
        found[0].encode_scores(np.arange(20_000, dtype=np.int64) % 2)

    assert bytes_left_by(use) <= found[0].memory


def test_spaces_in_a_list_are_memory_too():
    lists = NameLists()
    found = lists.read(BodyText(bytearray(b"[" + b" " * 100_000 + b'"a"]')), "", 1_000)
    lists.remember(found)
    assert lists.known_bytes > 100_000
