"""The proxy to the API server, by environment variables, as Go's httpproxy decides."""

from __future__ import annotations

import pytest

from podwright.kube.client.credentials.proxies import proxy_from_environment

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        pytest.param("https://api", {}, None, id="none"),
        pytest.param("https://api", {"HTTPS_PROXY": PROXY}, PROXY, id="for TLS"),
        pytest.param("https://api", {"https_proxy": PROXY}, PROXY, id="in lower case"),
        pytest.param("https://api", {"HTTPS_PROXY": PROXY, "https_proxy": "http://b"}, PROXY, id="capitals first"),
        pytest.param("https://api", {"HTTP_PROXY": PROXY}, None, id="that for plain HTTP is not for TLS"),
        pytest.param("http://api", {"HTTP_PROXY": PROXY}, PROXY, id="for plain HTTP"),
        pytest.param("http://api", {"HTTPS_PROXY": PROXY}, None, id="that for TLS is not for plain HTTP"),
        pytest.param("https://api", {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None, id="localhost has none"),
        pytest.param("https://127.0.0.9", {"HTTPS_PROXY": PROXY}, None, id="loopback has none"),
        pytest.param("https://[::1]", {"HTTPS_PROXY": PROXY}, None, id="loopback of IPv6 has none"),
    ],
)
def test_the_proxy_follows_the_scheme(server, environ, proxy):
    assert proxy_from_environment(server, environ) == proxy


@pytest.mark.parametrize(
    ("server", "exceptions", "uses"),
    [
        pytest.param("https://api", "*", False, id="all"),
        pytest.param("https://api.example", "example", False, id="a domain's subdomain"),
        pytest.param("https://example", "example", False, id="the domain itself"),
        pytest.param("https://example", ".example", True, id="not itself with a dot"),
        pytest.param("https://api.example", ".example", False, id="a subdomain with a dot"),
        pytest.param("https://api.example", "*.example", False, id="a subdomain with a star"),
        pytest.param("https://notexample", "example", True, id="another name with the same end"),
        pytest.param("https://API.Example", "api.EXAMPLE", False, id="in another case"),
        pytest.param("https://api", " x , api ", False, id="with spaces"),
        pytest.param("https://api", ",,", True, id="nothing"),
        pytest.param("https://api", "api:443", False, id="the default port"),
        pytest.param("https://api:6443", "api:443", True, id="another port"),
        pytest.param("https://api:6443", "api:6443", False, id="the port"),
        pytest.param("https://10.0.0.1", "10.0.0.1", False, id="an address"),
        pytest.param("https://10.0.0.1", "10.0.0.1:6443", True, id="an address with another port"),
        pytest.param("https://10.0.0.1", "10.0.0.0/8", False, id="a network"),
        pytest.param("https://11.0.0.1", "10.0.0.0/8", True, id="another network"),
        pytest.param("https://10.0.0.1", "10.0.0.0/99", True, id="a malformed network"),
        pytest.param("https://api", "10.0.0.0/8", True, id="a network is no name"),
        pytest.param("https://[fd00::1]", "fd00::/8", False, id="a network of IPv6"),
        pytest.param("https://[fd00::1]", "[fd00::1]:443", False, id="an address of IPv6 with its port"),
        pytest.param("https://[fd00::1]", "fd00::1", False, id="an address of IPv6"),
    ],
)
def test_exceptions_are_names_addresses_and_networks(server, exceptions, uses):
    for name in ("NO_PROXY", "no_proxy"):
        found = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, name: exceptions})
        assert found == (PROXY if uses else None)
