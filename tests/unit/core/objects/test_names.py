"""The forms of names."""

import pytest

from podwright.core.objects.names import is_dns_label, is_dns_subdomain


@pytest.mark.parametrize("name", ["a", "0", "a-b", "x" * 63])
def test_labels(name):
    assert is_dns_label(name)
    assert is_dns_subdomain(name)


@pytest.mark.parametrize("name", ["a.b", "node-1.example.com", "x" * 253])
def test_only_subdomains(name):
    assert not is_dns_label(name)
    assert is_dns_subdomain(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "a b", "a?b", "a%2fb", "A", "ä", "-a", "a-", "a\n", "a.", "x" * 254]
)
def test_neither(name):
    assert not is_dns_label(name)
    assert not is_dns_subdomain(name)
