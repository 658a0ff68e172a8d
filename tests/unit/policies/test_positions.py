"""Lines and columns of values in YAML files."""

from __future__ import annotations

import pytest

from podwright.policies.positions import positions, repeated_keys

TEXT = """\
kind: SchedulerPolicy
spec:
  plain: a == b
  quoted: "a == b"
  escaped: "a == \\"b\\""
  folded: >
    a ==
    b
  block: |-
    a &&
      b
  list:
    - name: first
---
---
kind: List
items:
  - kind: A
  - kind: B
    spec: {a: 1, b: 2, a: 3}
"""


def test_each_document_and_each_item_of_a_list_is_an_object() -> None:
    assert [position.place for position in positions(TEXT)] == [(1, 1), (18, 5), (19, 5)]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param("spec.plain", (3, 10), id="a field"),
        pytest.param("spec.list[0].name", (13, 13), id="a field of an entry of a list"),
        pytest.param("spec.list[0].missing", (13, 7), id="a missing field: the entry"),
        pytest.param("spec.list[7]", (13, 5), id="a missing entry: the list"),
        pytest.param("spec.plain[key]", (3, 10), id="a field of a text: the text"),
    ],
)
def test_a_path_leads_to_the_last_value_that_exists(path: str, place: tuple[int, int]) -> None:
    assert next(positions(TEXT)).at(path).place == place


@pytest.mark.parametrize(
    ("field", "line", "column", "place"),
    [
        pytest.param("plain", 1, 3, (3, 12), id="plain"),
        pytest.param("quoted", 1, 3, (4, 14), id="quoted"),
        pytest.param("block", 2, 3, (11, 7), id="second line of a block"),
        pytest.param("escaped", 1, 3, None, id="quoted, with escapes"),
        pytest.param("folded", 1, 3, None, id="folded"),
        pytest.param("list", 1, 3, None, id="not a text"),
    ],
)
def test_a_place_in_a_text_is_known_where_the_file_has_the_text_as_it_is(
    field: str, line: int, column: int, place: tuple[int, int] | None
) -> None:
    assert next(positions(TEXT)).at(f"spec.{field}").inside(line, column) == place


def test_repeated_keys_are_found_at_any_depth() -> None:
    *_, last = positions(TEXT)
    assert [*repeated_keys(last)] == [("a", (20, 24))]
