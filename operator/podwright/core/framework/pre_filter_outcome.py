"""The combined verdict of a profile's PreFilter plugins on a pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """`status`: the rejection of the pod, or None. `node_names`: the only nodes to filter; None: all. `narrowed_by`:
    the plugins that named them.
    """

    status: Status | None
    node_names: frozenset[str] | None
    narrowed_by: tuple[str, ...]


ANYWHERE: Final = PreFilterOutcome(None, None, ())
"""Made once, because it is frequent."""


def nowhere(plugins: Iterable[str]) -> Status:
    """The rejection of a pod for which these plugins together leave no node."""
    names = sorted(plugins)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
