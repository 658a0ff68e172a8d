"""Comparing resourceVersions. Within a kind they grow, by the API's contract since Kubernetes 1.35."""

from __future__ import annotations


def version_number(text: str) -> int:
    """The number of a resourceVersion; 0 if it is not one."""
    return int(text) if text.isdecimal() else 0
