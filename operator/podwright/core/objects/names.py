"""The forms of names that the API server accepts. Source: `k8s.io/apimachinery/pkg/util/validation`."""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


def is_dns_label(text: str) -> bool:
    """True if it can be the name of a namespace."""
    return _LABEL.match(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """True if it can be the name of a pod or a node."""
    return _SUBDOMAIN.match(text) is not None
