"""Messages of the extender protocol. The words of errors were recorded from Go's encoding/json with the types of
extender/v1.
"""

import contextlib
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.extender import wire
from podwright.extender.go_json import GoJSONError
from podwright.extender.wire import (
    BindingArgs,
    BindingResult,
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
    MetaVictims,
    PreemptionResult,
)

POD = {"metadata": {"name": "web-0"}}
NODES = ({"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}})


@pytest.mark.parametrize(
    ("message", "decode"),
    [
        pytest.param(
            ExtenderFilterResult(
                node_names=("n1",), failed_nodes={"n2": "no"}, failed_and_unresolvable_nodes={"n3": "never"}
            ),
            wire.decode_filter_result,
            id="filter result with names",
        ),
        pytest.param(
            ExtenderFilterResult(nodes=NODES, failed_nodes={}, failed_and_unresolvable_nodes={}, error="broken"),
            wire.decode_filter_result,
            id="filter result with nodes and an error",
        ),
        pytest.param((HostPriority("n1", 10), HostPriority("n2", -3)), wire.decode_host_priorities, id="priorities"),
        pytest.param(
            PreemptionResult({"n1": MetaVictims((), 2)}), wire.decode_preemption_result, id="preemption result"
        ),
        pytest.param(
            BindingArgs(pod_name="web-0", pod_namespace="shop", pod_uid="u1", node="n1"),
            wire.decode_binding_args,
            id="binding args",
        ),
        pytest.param(BindingResult("no"), wire.decode_binding_result, id="binding result"),
    ],
)
def test_a_message_is_read_as_it_was_written(message, decode):
    assert decode(wire.encode(message)) == message


def test_go_names_are_the_keys_of_what_is_written():
    written = orjson.loads(wire.encode(ExtenderArgs(pod=POD, nodes=NODES)))
    assert written == {"Pod": POD, "Nodes": {"metadata": {}, "items": list(NODES)}, "NodeNames": None}


def test_json_of_objects_is_written_as_it_is():
    fragment = orjson.Fragment(orjson.dumps(POD))
    assert orjson.loads(wire.encode(ExtenderArgs(pod=fragment, node_names=())))["Pod"] == POD


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"nodenames": ["a"], "ERROR": "e"}', (("a",), "e"), id="keys in any case"),
        pytest.param(b'{"NodeNames": ["a"], "nodenames": ["b"]}', (("b",), ""), id="the later of two keys wins"),
        pytest.param(b'{"NodeNames": [null]}', (("",), ""), id="null is the empty string"),
        pytest.param(b'{"NodeNames": null, "Nodes": null, "FailedNodes": null}', (None, ""), id="null is nothing"),
        pytest.param(b"null", (None, ""), id="null for the whole message"),
        pytest.param(b'{"unknown": {"a": [1]}}', (None, ""), id="unknown keys"),
        pytest.param(b'{"NodeNames": ["a"]} and more', (("a",), ""), id="anything after the first value"),
        pytest.param(b'{"NodeNames": ["\xff"]}', (("\N{REPLACEMENT CHARACTER}",), ""), id="invalid UTF-8"),
        pytest.param(b'{"NodeNames": ["\\ud800"]}', (("\N{REPLACEMENT CHARACTER}",), ""), id="a lone surrogate"),
    ],
)
def test_what_go_takes_is_taken(body, expected):
    result = wire.decode_filter_result(body)
    assert (result.node_names, result.error) == expected


_VALUE = "json: cannot unmarshal {} into Go value of type v1.ExtenderFilterResult"
_FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "EOF"),
        (" ", "EOF"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ("garbage", "invalid character 'g' looking for beginning of value"),
        ("<html>", "invalid character '<' looking for beginning of value"),
        ("{", "unexpected EOF"),
        ('{"a"', "unexpected EOF"),
        ('{"a":', "unexpected EOF"),
        ('{"a":1', "unexpected EOF"),
        ('{"a":"abc', "unexpected EOF"),
        ("nul", "unexpected EOF"),
        ("-", "unexpected EOF"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("'x'", "invalid character '\\'' looking for beginning of value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("\0", "invalid character '\\x00' looking for beginning of value"),
        ('{"a": "\\x"}', "invalid character 'x' in string escape code"),
        ('{"a": "\n"}', "invalid character '\\n' in string literal"),
        ("5", _VALUE.format("number")),
        ("01", _VALUE.format("number")),
        ('"x"', _VALUE.format("string")),
        ("[]", _VALUE.format("array")),
        ("true", _VALUE.format("bool")),
        ('{"NodeNames":5}', _FIELD.format("number", "ExtenderFilterResult.NodeNames", "[]string")),
        ('{"NodeNames":[5]}', _FIELD.format("number", "ExtenderFilterResult.NodeNames", "string")),
        ('{"Nodes":[]}', _FIELD.format("array", "ExtenderFilterResult.Nodes", "v1.NodeList")),
        ('{"Nodes":{"items":{}}}', _FIELD.format("object", "NodeList.Nodes.items", "[]v1.Node")),
        ('{"Nodes":{"items":[5]}}', _FIELD.format("number", "NodeList.Nodes.items", "v1.Node")),
        ('{"FailedNodes":[]}', _FIELD.format("array", "ExtenderFilterResult.FailedNodes", "v1.FailedNodesMap")),
        ('{"FailedNodes":{"a":5}}', _FIELD.format("number", "ExtenderFilterResult.FailedNodes", "string")),
        ('{"Error":{}}', _FIELD.format("object", "ExtenderFilterResult.Error", "string")),
    ],
)
def test_errors_have_gos_words(body, words):
    with pytest.raises(GoJSONError) as caught:
        wire.decode_filter_result(body.encode())
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{}", "json: cannot unmarshal object into Go value of type v1.HostPriorityList"),
        ("[5]", "json: cannot unmarshal number into Go value of type v1.HostPriority"),
        ('[{"Score":"x"}]', _FIELD.format("string", "HostPriority.Score", "int64")),
        ('[{"Score":5.5}]', _FIELD.format("number 5.5", "HostPriority.Score", "int64")),
        ('[{"Host":"a","Score":9223372036854775808}]', "number 9223372036854775808"),
        ('[{"Score":true}]', _FIELD.format("bool", "HostPriority.Score", "int64")),
    ],
)
def test_errors_of_priorities_have_gos_words(body, words):
    with pytest.raises(GoJSONError) as caught:
        wire.decode_host_priorities(body.encode())
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "json: cannot unmarshal array into Go value of type v1.ExtenderPreemptionResult"),
        (
            '{"NodeNameToMetaVictims":{"a":{"Pods":5}}}',
            _FIELD.format("number", "MetaVictims.NodeNameToMetaVictims.Pods", "[]*v1.MetaPod"),
        ),
        (
            '{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":5}]}}}',
            _FIELD.format("number", "MetaPod.NodeNameToMetaVictims.Pods.UID", "string"),
        ),
        (
            '{"NodeNameToMetaVictims":{"a":5}}',
            _FIELD.format("number", "ExtenderPreemptionResult.NodeNameToMetaVictims", "v1.MetaVictims"),
        ),
    ],
)
def test_errors_of_victims_have_gos_words(body, words):
    with pytest.raises(GoJSONError) as caught:
        wire.decode_preemption_result(body.encode())
    assert str(caught.value) == words


_DECODERS = (
    wire.decode_filter_result,
    wire.decode_host_priorities,
    wire.decode_preemption_result,
    wire.decode_binding_args,
    wire.decode_binding_result,
)
_KEYS = st.sampled_from(
    [
        "Pod",
        "Nodes",
        "items",
        "NodeNames",
        "FailedNodes",
        "Error",
        "Host",
        "Score",
        "UID",
        "Pods",
        "PodUID",
        "NodeNameToVictims",
        "NodeNameToMetaVictims",
        "NumPDBViolations",
        "failedandunresolvablenodes",
        "x",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(body=st.binary() | st.text().map(str.encode) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_message_or_an_error(body):
    for decode in _DECODERS:
        with contextlib.suppress(GoJSONError):
            decode(body)
