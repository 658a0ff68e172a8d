"""Owner: the policy that rules belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class RuleOwner:
    """The policy that rules belong to, and what only they can read. Compared by identity.

    `params_from`: namespace and name of the ConfigMap with more params; None: no ConfigMap. `scope`: the only namespace
    whose pods are counted, "" for all.
    """

    policy: str
    params: Mapping[str, str] = field(default_factory=dict)
    params_from: tuple[str, str] | None = None
    scope: str = ""
