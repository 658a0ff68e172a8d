"""A plugin's explanation why it rejects a pod, for `podwright explain`: see `Plugin.why_not_here` and the methods after
it.

A change may be a guess, because the core decides with it before it is shown.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo

Raw = dict[str, Any]
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
CLOSE: Final = 0.6
"""How similar two names must be for one to be a misspelt form of the other."""
MOST_NAMED: Final = 3
"""How many requirements one text names."""
MOST_READ: Final = 2000
"""How many pods of a node are read to name those that are in the way."""


class Why(NamedTuple):
    """`reason`: one word for programs; "": the plugin's `reason`. `text`: the cause, in place of the status's message.
    `detail`: the names and amounts on this node.
    """

    reason: str = ""
    text: str = ""
    detail: str = ""


class PodChange(NamedTuple):
    """A changed object of the pod."""

    text: str
    raw: Raw


class NodeChange(NamedTuple):
    """A node with other labels, other taints, or uncordoned."""

    text: str
    node: Node


def editable(pod: PodInfo) -> Raw:
    """A deep copy of the pod's object, with a spec."""
    made = copy.deepcopy(dict(pod.raw or {}))
    made["spec"] = dict(made.get("spec") or {})
    return made


def some(found: Iterable[str]) -> str:
    """The first of these requirements, as one text."""
    return "; ".join(islice(found, MOST_NAMED))
