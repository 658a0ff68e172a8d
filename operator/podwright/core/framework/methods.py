"""The names of the methods that the scheduler calls of a plugin, by how it calls them.

Every method of `interface` is here, and what it returns follows from that: only those in AWAITED may be coroutines.
"""

from __future__ import annotations

from typing import Final

WITH_STATE: Final = (
    "pre_filter",
    "add_pod",
    "remove_pod",
    "filter",
    "filter_all",
    "post_filter",
    "group_waits",
    "pre_score",
    "score",
    "score_all",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
)
"""Plain methods of a scheduling cycle. The first argument is its CycleState."""
WITHOUT_STATE: Final = (
    "attach",
    "costs",
    "why_not_here",
    "why_nowhere",
    "remoteness_of",
    "changes_of_pod",
    "change_of_node",
    "pre_enqueue",
    "tells_gate",
    "sort_key",
    "verdict_key",
    "prepare",
    "looks_beyond_node",
    "reaches_beyond_node",
    "influence",
    "influence_key",
    "own_keys",
    "joint_rules",
    "checked_requests",
    "clear_cache",
)
"""Plain methods that are called outside a scheduling cycle, or for all cycles alike."""
AWAITED: Final = ("pre_bind", "bind", "post_bind")
"""Coroutines of a binding cycle. The first argument is the CycleState of its scheduling cycle."""
WHEN_BUILT: Final = ("hints",)
"""Plain methods that are called once, when the plugin is built."""
WITHOUT_INSTANCE: Final = ("pre_filter_disabled",)
"""Static methods, called where a profile does not enable the plugin."""
