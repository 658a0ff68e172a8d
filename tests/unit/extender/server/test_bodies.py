"""The room for large bodies, and decoding them piece by piece."""

import asyncio
import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.extender.go_json import GoJSONError
from podwright.extender.server.bodies import Budget, NodePiece, encode_scores, pieces
from podwright.extender.wire import HostPriority, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NODES = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=5)


@given(pod=st.dictionaries(st.text(), VALUES), nodes=NODES, indent=st.booleans())
def test_the_pieces_of_a_body_are_what_it_holds(pod, nodes, indent):
    whole = {"Pod": pod, "Nodes": {"metadata": {"x": [1]}, "items": nodes, "kind": "List"}, "NodeNames": None}
    text = orjson.dumps(whole, option=orjson.OPT_INDENT_2 if indent else None).decode()
    found = list(pieces(text))
    sent = [piece for piece in found if isinstance(piece, NodePiece)]
    assert [piece.raw for piece in sent] == nodes
    assert [orjson.loads(text[piece.start : piece.end]) for piece in sent] == nodes
    assert dict(piece for piece in found if not isinstance(piece, NodePiece)) == {"Pod": pod, "NodeNames": None}


@given(st.text(alphabet='{}[]:,"aNodesitm \\1'))
def test_any_text_is_read_or_refused(text):
    for wrapped in (text, '{"Nodes":' + text, '{"Nodes":{"items":[' + text):
        with contextlib.suppress(GoJSONError):
            list(pieces(wrapped))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"Nodes":{"items":[{}', id="ends in the list"),
        pytest.param('{"Nodes":{"items":[1]}}', id="a node that is no object"),
        pytest.param('{"Nodes":{"items":[{} {}]}}', id="no comma"),
        pytest.param("{1:2}", id="a key that is no string"),
        pytest.param('{"Pod":' + "[" * 100_000, id="too deep"),
    ],
)
def test_malformed_bodies_are_refused(text):
    with pytest.raises(GoJSONError, match="not JSON"):
        list(pieces(text))


@given(st.lists(st.tuples(st.text() | st.text(alphabet='",\\ab'), st.integers(0, 10))))
def test_scores_are_written_as_the_protocol_writes_them(scored):
    names, scores = [name for name, _ in scored], [score for _, score in scored]
    assert encode_scores(names, scores) == encode(tuple(map(HostPriority, names, scores)))


async def test_room_is_given_in_the_order_of_arrival():
    budget, order = Budget(10), []

    async def use(name, size):
        await budget.take(size)
        order.append(name)
        await asyncio.sleep(0)
        assert budget.used <= 10
        budget.give_back(size)

    await asyncio.gather(use("a", 6), use("b", 10), use("c", 1), use("d", 5))
    assert order == ["a", "b", "c", "d"]
    assert budget.used == 0


async def test_who_gives_up_waiting_takes_no_room():
    budget = Budget(10)
    await budget.take(10)
    waiting = [asyncio.create_task(budget.take(10)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    budget.give_back(10)
    waiting[1].cancel()  # its turn has come, but it has not run yet
    await asyncio.gather(*waiting[:2], return_exceptions=True)
    async with asyncio.timeout(10):
        await waiting[2]
    assert budget.used == 10
