"""URLs and named formats in expressions."""

import pytest

from podwright.core.cel.environment import Environment
from podwright.core.cel.errors import EvaluationError


@pytest.fixture(scope="module")
def environment():
    return Environment({})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("url('HTTPS://h:80/a%2Fb').getScheme()", "https", id="the scheme in small letters"),
        pytest.param("url('https://[::1]:80/').getHostname()", "::1", id="an IPv6 host"),
        pytest.param("url('https://[::1]:80/').getPort()", "80", id="a port"),
        pytest.param("url('/a b/ü').getEscapedPath()", "/a%20b/%C3%BC", id="an escaped path"),
        pytest.param("url('http://h/?k=1&k=2&x=a+b').getQuery()", {"k": ["1", "2"], "x": ["a b"]}, id="a query"),
        pytest.param("isURL('a') || isURL('http://h:80:90/') || isURL('http://h/%zz')", False, id="no URLs"),
        pytest.param("url('http://h/#a') == url('http://h/')", False, id="a fragment"),
        pytest.param("format.dns1123Label().validate('my-name').hasValue()", False, id="a label"),
        pytest.param("format.dns1123Label().validate('my.name').value()", ["must not contain dots"], id="no label"),
        pytest.param("format.dns1123LabelPrefix().validate('my-').hasValue()", False, id="a prefix"),
        pytest.param(
            "format.qualifiedName().validate('/a').value()", ["prefix part must be non-empty"], id="no prefix"
        ),
        pytest.param("format.date().validate('2023-02-29').value()", ["invalid date"], id="no date"),
        pytest.param("format.named('none').hasValue()", False, id="no format"),
    ],
)
def test_an_expression_over_texts_has_this_value(environment, text, value):
    assert environment.compile(text).evaluate({}) == value


def test_a_text_that_is_no_url_gets_the_error_of_go(environment):
    with pytest.raises(EvaluationError) as raised:
        environment.compile("url('a')").evaluate({})
    reason = 'parse "a": invalid URI for request'
    assert str(raised.value) == f"URL parse error during conversion from string: {reason}"
