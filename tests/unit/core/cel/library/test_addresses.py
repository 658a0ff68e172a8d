"""IP addresses and networks in expressions."""

import pytest

from podwright.core.cel.environment import Environment
from podwright.core.cel.errors import EvaluationError


@pytest.fixture(scope="module")
def environment():
    return Environment({})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("ip('10.0.0.1').family() == 4 && ip('::1').family() == 6", True, id="families"),
        pytest.param("isIP('10.0.0.256') || isIP('::ffff:10.0.0.1') || isIP('fe80::1%eth0')", False, id="no addresses"),
        pytest.param("ip.isCanonical('2001:DB8::1')", False, id="capital letters"),
        pytest.param("string(ip('2001:DB8:0::1'))", "2001:db8::1", id="the canonical text"),
        pytest.param("cidr('10.0.0.0/8').containsIP('10.1.2.3')", True, id="an address in a network"),
        pytest.param("cidr('10.0.0.0/8').containsIP(ip('::1'))", False, id="an address of the other family"),
        pytest.param("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True, id="a network in a network"),
        pytest.param("cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')", False, id="a network around a network"),
        pytest.param("string(cidr('10.1.2.3/16').masked())", "10.1.0.0/16", id="without the bits behind the prefix"),
        pytest.param("cidr('10.1.2.3/16') == cidr('10.1.0.0/16')", False, id="other bits behind the prefix"),
        pytest.param("isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0') || isCIDR('10.0.0.0/33')", False, id="no networks"),
        pytest.param(
            "ip('224.0.0.5').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", True, id="groups"
        ),
        pytest.param("ip('255.255.255.255').isGlobalUnicast()", False, id="broadcast"),
    ],
)
def test_an_expression_over_addresses_has_this_value(environment, text, value):
    assert environment.compile(text).evaluate({}) == value


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "ip('x')", 'IP Address "x" parse error during conversion from string: .*unable to parse IP', id="no address"
        ),
        pytest.param("cidr('10.0.0.0/33')", "prefix length out of range", id="a prefix that is too long"),
        pytest.param("cidr('10.0.0.0')", "no '/'", id="no prefix"),
        pytest.param("dyn(ip('::1')) == dyn(1)", "no such overload", id="another type"),
    ],
)
def test_a_text_that_is_no_address_is_an_error(environment, text, error):
    with pytest.raises(EvaluationError, match=error):
        environment.compile(text).evaluate({})
