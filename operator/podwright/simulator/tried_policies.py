"""Policies that are given to be tried: in shadow mode they would decide nothing, so they are tried as if their mode
were Enforce.

Those that a snapshot contains are as they are in the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from podwright.api.scheduler_policy import KIND
from podwright.core.objects.raw import Raw


def enforced(raw: Raw) -> Raw:
    """The object; if it is a policy in shadow mode, the policy that enforces the same."""
    spec = raw.get("spec")
    if raw.get("kind", KIND) != KIND or not isinstance(spec, Mapping) or spec.get("mode") != "Shadow":
        return raw
    return {**raw, "spec": {name: value for name, value in spec.items() if name != "mode"}}
