"""The parsed requests: both forms of each, the bounds, and how much is kept."""

import orjson
import pytest

from podwright.core.objects.node import parse_node
from podwright.extender import wire
from podwright.extender.go_json import GoJSONError
from podwright.extender.server import requests as module
from podwright.extender.server.body_text import CHUNK, TooLargeError
from podwright.extender.server.requests import read_asked, read_victims
from podwright.extender.wire import ExtenderArgs, MetaVictims, PreemptionArgs, Victims
from support.objects.builders import make_node
from support.steps import run_steps as run

POD = {"metadata": {"name": "web-0"}}


def read_node(raw):
    node = parse_node(raw)
    return node.name, node


def asked(body, most=100):
    return run(read_asked(bytearray(body), read_node, most))[0]


def victims(body, most=100):
    return run(read_victims(bytearray(body), most))[0]


@pytest.mark.parametrize("names", [(), ("a", "b")])
def test_names_are_read_as_they_were_written(names):
    found = asked(wire.encode(ExtenderArgs(pod=POD, node_names=names)))
    assert (found.pod.raw, tuple(found.names), found.texts) == (POD, names, None)
    assert found.pod.text == orjson.dumps(POD).decode()


def test_nodes_are_read_as_they_were_written():
    nodes = [make_node("a"), {**make_node("b"), "extra": "ü"}]
    found = asked(wire.encode(ExtenderArgs(pod=POD, nodes=nodes)))
    assert found.names == ["a", "b"]
    assert orjson.loads(orjson.dumps(found.texts)) == nodes
    assert [node.name for node in found.differing] == ["a", "b"]


@pytest.mark.parametrize(
    "message",
    [
        PreemptionArgs(pod=POD, victims={"n": Victims(({"metadata": {"uid": "u"}}, {}), 1)}),
        PreemptionArgs(pod=POD, meta_victims={"n": MetaVictims(("u", ""), 1)}),
    ],
    ids=["pods", "uids"],
)
def test_victims_are_read_by_uid(message):
    found = victims(wire.encode(message))
    assert (found.pod.raw, found.victims) == (POD, {"n": MetaVictims(("u", ""), 1)})


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param(b'{"nodenames": ["a"]}', ("a",), id="keys in any case"),
        pytest.param(b'{"NodeNames": ["a"], "nodenames": ["b"]}', ("b",), id="the later of two keys wins"),
        pytest.param(b'{"NodeNames": [null]}', ("",), id="null is the empty string"),
        pytest.param(b'{"Nodes": null}', (), id="null is nothing"),
        pytest.param(b"null", (), id="null for the whole message"),
        pytest.param(b'{"NodeNames": ["a"]} and more', ("a",), id="anything after the first value"),
        pytest.param(b'{"NodeNames": ["\xff"]}', ("\N{REPLACEMENT CHARACTER}",), id="invalid UTF-8"),
        pytest.param(b'{"NodeNames": ["\\ud800"]}', ("\N{REPLACEMENT CHARACTER}",), id="a lone surrogate"),
    ],
)
@pytest.mark.parametrize("filler", [0, 2 * CHUNK])
def test_what_go_takes_is_taken_whatever_the_size(body, names, filler):
    assert tuple(asked(b" " * filler + body).names) == names


_FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "EOF"),
        ("{", "unexpected EOF"),
        ("[]", "json: cannot unmarshal array into Go value of type v1.ExtenderArgs"),
        ('{"Pod":1}', _FIELD.format("number", "ExtenderArgs.Pod", "v1.Pod")),
        ('{"Pod":NaN}', "invalid character 'N' looking for beginning of value"),
        ('{"NodeNames":[5]}', _FIELD.format("number", "ExtenderArgs.NodeNames", "string")),
        ('{"Nodes":[]}', _FIELD.format("array", "ExtenderArgs.Nodes", "v1.NodeList")),
        ('{"Nodes":{"items":{}}}', _FIELD.format("object", "NodeList.Nodes.items", "[]v1.Node")),
        ('{"Nodes":{"items":[5]}}', _FIELD.format("number", "NodeList.Nodes.items", "v1.Node")),
        ('{"Nodes":{"items":[null 5]}}', "Node ?: metadata.name: a name is required"),
        ('{"Nodes":{"items":[', "unexpected EOF"),
    ],
)
@pytest.mark.parametrize("filler", [0, 2 * CHUNK])
def test_errors_have_gos_words_whatever_the_size(body, words, filler):
    with pytest.raises(GoJSONError) as caught:
        asked(b" " * filler + body.encode())
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"NodeNameToMetaVictims":5}', _FIELD.format("number", "ExtenderPreemptionArgs.NodeNameToMetaVictims", "map[string]*v1.MetaVictims")),
        ('{"NodeNameToMetaVictims":{"a":null}}', _FIELD.format("object", "ExtenderPreemptionArgs.NodeNameToMetaVictims", "v1.MetaVictims")),
        ('{"NodeNameToMetaVictims":{"a":{"Pods":5}}}', _FIELD.format("number", "MetaVictims.NodeNameToMetaVictims.Pods", "[]*v1.MetaPod")),
        ('{"NodeNameToVictims":{"a":{"Pods":[5]}}}', _FIELD.format("number", "Victims.NodeNameToVictims.Pods", "v1.Pod")),
        ('{"NodeNameToVictims":{"a":{"NumPDBViolations":"x"}}}', _FIELD.format("string", "Victims.NodeNameToVictims.NumPDBViolations", "int64")),
    ],
)  # fmt: skip
def test_errors_of_victims_have_gos_words(body, words):
    with pytest.raises(GoJSONError) as caught:
        victims(body.encode())
    assert str(caught.value) == words


def node_text(name):
    return orjson.dumps({"metadata": {"name": name}})


@pytest.mark.parametrize(
    ("read", "body"),
    [
        pytest.param(asked, b'{"NodeNames":["a","b","c","d"]}', id="names"),
        pytest.param(asked, b'{"Nodes":{"items":[' + b",".join(map(node_text, "abcd")) + b"]}}", id="nodes"),
        pytest.param(victims, b'{"NodeNameToMetaVictims":{"a":{},"b":{},"c":{},"d":{}}}', id="victims"),
    ],
)
def test_the_number_of_nodes_is_bounded(read, body):
    read(body, most=4)
    with pytest.raises(TooLargeError, match="there are more than 3 n"):
        read(body, most=3)


def test_the_number_of_victims_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_VICTIMS", 3)
    two, three = b'{"Pods":[{},{}]}', b'{"Pods":[{},{},{}]}'
    victims(b'{"NodeNameToVictims":{"a":%b}}' % three)
    with pytest.raises(TooLargeError, match="more than 3 victims"):
        victims(b'{"NodeNameToVictims":{"a":%b,"b":%b}}' % (two, two))


def test_nodes_beyond_the_bound_are_not_read():
    seen = []

    def counting(raw):
        seen.append(raw)
        return read_node(raw)

    body = bytearray(b'{"Nodes":{"items":[' + b",".join([node_text("n")] * 200_000) + b"]}}")
    size = len(body)
    with pytest.raises(TooLargeError):
        run(read_asked(body, counting, 1_000))
    assert len(seen) == 1_000
    assert size - len(body) <= CHUNK


def test_the_loop_can_run_after_each_node_and_each_unknown_field():
    nodes = b'"Nodes":{"items":[' + b",".join([node_text("n")] * 50) + b"]}"
    assert run(read_asked(bytearray(b"{" + nodes + b"}"), read_node, 100))[1] >= 50
    unknown = b",".join([b'"x":[1]'] * 50)
    assert run(read_asked(bytearray(b"{" + unknown + b"}"), read_node, 100))[1] >= 50
