"""Values by their text: which are remembered, and for how long."""

from podwright.core.objects.compaction import compact_all
from podwright.extender.server.body_text import BodyText
from podwright.extender.server.known_texts import KnownTexts


def taken(known, text):
    return known.take(BodyText(bytearray(text.encode())))


def test_the_value_of_the_same_text_is_found_wherever_it_stands():
    known = KnownTexts(3, 100)
    known.keep("[1]", "one", 3)
    body = BodyText(bytearray(b'{"a": [1] , "b":2}'))
    for _ in body.members(2, "fields"):
        if body.next == "[":
            assert known.take(body) == "one"
            assert (body.last, body.next) == ("[1]", ",")
        else:
            assert known.take(body) is None
            assert body.value() == 2


def test_what_was_used_longest_ago_is_forgotten():
    known = KnownTexts(2, 100)
    known.keep("[1]", "one", 1)
    known.keep("[2]", "two", 1)
    assert taken(known, "[1]") == "one"
    known.keep("[3]", "three", 1)
    assert [taken(known, f"[{number}]") for number in (1, 2, 3)] == ["one", None, "three"]


def test_sizes_are_bounded():
    known = KnownTexts(10, 10)
    known.keep("[1]", "one", 6)
    known.keep("[2]", "two", 6)
    assert (known.size, taken(known, "[1]"), taken(known, "[2]")) == (6, None, "two")
    known.keep("[3]", "three", 11)
    assert taken(known, "[3]") is None
    assert taken(known, "[2]") == "two"


def test_a_text_is_kept_once():
    known = KnownTexts(10, 10)
    for _ in range(3):
        known.keep("[1]", "one", 3)
    assert (len(known), known.size) == (1, 3)


def test_everything_is_forgotten_in_a_compaction():
    known = KnownTexts(10, 10)
    known.keep("[1]", "one", 3)
    compact_all()
    assert (len(known), known.size, taken(known, "[1]")) == (0, 0, None)
