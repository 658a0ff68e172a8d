"""The syntax of a configuration file, before its fields are looked at."""

import pytest
import yaml

from podwright.api.configuration.documents import MAX_BYTES, MAX_VALUES, Dumper, read_document
from podwright.core.framework.profile import ProfileError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1", {"a": 1}, id="YAML"),
        pytest.param('{"a": 1}', {"a": 1}, id="JSON"),
        pytest.param("---\na: 1\n---\nb: 2", {"a": 1}, id="only the first document counts"),
        pytest.param("a: 16.0", {"a": 16}, id="a whole number with a point, in YAML"),
        pytest.param('{"a": 16.0}', {"a": 16.0}, id="a whole number with a point, in JSON"),
        pytest.param("a: 2020-01-01", {"a": "2020-01-01"}, id="a date stays a string"),
        pytest.param("1: x\ntrue: z", {"1": "x", "true": "z"}, id="keys become strings"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias"),
        pytest.param("x: &x {b: 1}\nz: {<<: *x, c: 2}", {"x": {"b": 1}, "z": {"b": 1, "c": 2}}, id="a merged key"),
        pytest.param("a: !!binary YWI=", {"a": "ab"}, id="binary data"),
    ],
)
def test_a_document_is_read(text, expected):
    found = read_document(text.encode())
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize("value", ["y", "No", "1e3", "0o10", "08", "1:30", "<<", "~", "5", 5, 1.5, -3, True, None])
def test_a_value_that_is_written_is_read_as_the_same(value):
    text = yaml.dump({"a": [value]}, Dumper=Dumper)
    assert read_document(text.encode()) == {"a": [value]}
    assert "!" not in text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "expected an object with apiVersion and kind", id="nothing"),
        pytest.param(b"- 1", "expected an object with apiVersion and kind", id="a list"),
        pytest.param(b"a: [", "the file is not valid YAML", id="half a list"),
        pytest.param(b"a: \xff", "the file is not valid YAML", id="bytes that are no text"),
        pytest.param(b"a: 1\na: 2", "line 2: key 'a' is given twice", id="a key given twice"),
        pytest.param(b"a:\n- b: 1\n  b: 2", "line 3: key 'b' is given twice", id="a key given twice, deep"),
        pytest.param(b"a: .nan", "a: a value of type float is not possible here", id="not a number"),
        pytest.param(b"a: !!binary x", "the file is not valid YAML", id="data that are not base64"),
        pytest.param(b"a: !!bool x", "'x' has another tag", id="a word with the tag of booleans"),
        pytest.param(b"a: !!int x", "'x' is not a number", id="a word with the tag of numbers"),
        pytest.param(
            b"x: &x {b: 1}\ny: {<<: *x, b: 2}", "line 2: key 'b' is given twice", id="a merged key given again"
        ),
        pytest.param(b'{"a": {"b": 1, "b": 2}}', "key 'b' is given twice", id="a key given twice, in JSON"),
        pytest.param(b'{"a": NaN}', "the file is not valid JSON", id="not a number, in JSON"),
        pytest.param(b'{"a": 1,}', "the file is not valid JSON", id="a comma at the end of JSON"),
        pytest.param(b"%YAML 1.2\n---\na: 1", "only version 1.1 is possible", id="YAML 1.2"),
        pytest.param(b"? [1, 2]\n: 3", "a key of type list is not possible", id="a list as a key"),
        pytest.param(b"a: !!python/name:os.system", "the file is not valid YAML", id="a Python object"),
        pytest.param(b"a: " + b"[" * 60 + b"]" * 60, "nested more than", id="deep lists"),
        pytest.param(
            b"a: " + b"{b: " * 5000, "the file is nested more than 50 levels deep", id="objects without an end"
        ),
        pytest.param(b"a: &a [*a]", "nested more than", id="an alias of what it is in"),
        pytest.param(b"x" * (MAX_BYTES + 1), "the file is larger than", id="a file beyond the bound"),
        pytest.param(
            b"a: &a [1,1,1,1,1,1,1,1,1]\n"
            + b"".join(b"%c: &%c [%s]\n" % (i, i, b",".join([b"*%c" % (i - 1)] * 9)) for i in range(98, 107)),
            f"the file has more than {MAX_VALUES} values",
            id="aliases of aliases",
        ),
    ],
)
def test_what_is_no_document_is_an_error(content, problem):
    with pytest.raises(ProfileError) as caught:
        read_document(content)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 500
