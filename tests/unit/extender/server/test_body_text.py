"""Reading a body value by value: the same values and words whatever the size, and never more text than a bound."""

import contextlib
import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.extender.go_json import GoJSONError, read
from podwright.extender.server import body_text as module
from podwright.extender.server.body_text import CHUNK, MAX_BRACKETS, MAX_VALUE, BodyText, TooLargeError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def walked(text):
    """Returns the text's value, read member by member and item by item."""
    if text.next == "{":
        return {key: walked(text) for key in text.members(100, "fields")}
    return list(text.items()) if text.next == "[" else text.value()


@given(value=VALUES, chunk=st.integers(1, 9), indent=st.booleans())
def test_values_are_read_whatever_the_pieces(value, chunk, indent):
    body = bytearray(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        assert walked(BodyText(body)) == value
    assert len(body) == 0


@given(st.binary() | st.text(alphabet='{}[]:,"aNu.e+-1 \\').map(str.encode), st.integers(1, 9))
def test_any_body_is_read_or_refused_as_a_whole_one_is(body, chunk):
    """The words, too, are those of a body that is there as a whole."""

    def outcome(call):
        try:
            value = call()
        except GoJSONError as error:
            return str(error)
        return "nan" if isinstance(value, float) and math.isnan(value) else value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        in_pieces = outcome(lambda: BodyText(bytearray(body)).value())
    assert in_pieces == outcome(lambda: BodyText(bytearray(body)).value())
    with contextlib.suppress(GoJSONError):
        walked(BodyText(bytearray(body)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"nul",
        b"[1 2]",
        b'{"a" 1}',
        b'{"a":1 "b"}',
        b'{"a":1,}',
        b"[1,]",
        b"{a:1}",
        b'{"a":NaN}',
        b'{"a":"\n"}',
    ],
)
def test_errors_have_the_words_of_the_other_reader(body):
    with pytest.raises(GoJSONError) as expected:
        read(body)
    with pytest.raises(GoJSONError) as found:
        walked(BodyText(bytearray(body)))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":"' + b"x" * 2 * MAX_VALUE + b'"}', id="a string"),
        pytest.param(b'{"a":[' + b"[]," * MAX_VALUE + b"[]]}", id="a list"),
        pytest.param(b'{"' + b"x" * 2 * MAX_VALUE + b'":1}', id="a key"),
        pytest.param(b'{"a":' + b"1" * 2 * MAX_VALUE + b"}", id="a number"),
    ],
)
def test_a_value_without_end_is_not_read_to_its_end(body):
    left = bytearray(body)
    with pytest.raises(GoJSONError):
        walked_members(BodyText(left), 1)
    assert len(body) - len(left) <= MAX_VALUE + 2 * CHUNK


def test_members_are_bounded():
    body = bytearray(b"{" + b'"":0,' * 50 + b'"":0}')
    with pytest.raises(TooLargeError, match="more than 50 fields"):
        walked_members(BodyText(body), 50)


def walked_members(text, most):
    return [text.value() for _ in text.members(most, "fields")]


def test_a_value_with_very_many_lists_is_read_no_further_than_they_are_seen():
    body = bytearray(b"[" + b"[]," * MAX_VALUE + b"[]]")
    size = len(body)
    with pytest.raises(TooLargeError, match="lists and objects"):
        BodyText(body).value()
    assert size - len(body) <= 3 * MAX_BRACKETS + 2 * CHUNK


def test_what_is_skipped_is_bounded_as_a_whole():
    field = b'"x":"' + b"x" * CHUNK + b'",'
    body = bytearray(b"{" + field * 100 + b'"y":0}')
    size = len(body)
    with pytest.raises(TooLargeError, match="unknown fields"):
        skip_members(BodyText(body))
    assert size - len(body) <= MAX_VALUE + 3 * CHUNK


def skip_members(text):
    for _ in text.members(1_000, "fields"):
        text.skip()


LISTS = (
    st.lists(st.text(alphabet='ab",[]{}\\\u00fc '), max_size=4).map(orjson.dumps)
    | st.lists(VALUES, max_size=3).map(orjson.dumps)
    | st.text(alphabet='["a],\\ ').map(str.encode)
)


@given(LISTS, st.sampled_from([b"", b" ", b"}", b',"x":[]}', b'"']), st.integers(1, 9))
def test_plain_strings_are_those_of_the_other_reader(body, after, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        text = BodyText(bytearray(b" " + body + after)) if (body + after).strip() else None
        found = None if text is None else text.plain_strings()
        if found is not None:
            other = BodyText(bytearray(body + after))
            assert found == other.value()
            assert (text.last, text.next) == (other.last, other.next)
        elif text is not None:  # nothing was read
            with contextlib.suppress(GoJSONError):
                assert text.value() == BodyText(bytearray(body + after)).value()


@pytest.mark.parametrize("body", [b'["a","b"]', b"[]", b'[ "a" ,\n"b" ]', b'["\\u0061"]'])
def test_a_list_of_ascii_strings_is_read_at_once(body):
    assert BodyText(bytearray(body)).plain_strings() == orjson.loads(body)
