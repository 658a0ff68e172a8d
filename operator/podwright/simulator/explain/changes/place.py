"""A pod and a node that rejects it, as the input of changes of the pod."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

Raw = dict[str, Any]
Option = tuple[str, Raw]
"""A text, and the changed pod."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
CLOSE: Final = 0.6
"""How similar two names must be for one to be a misspelt form of the other."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pod and a node that rejects it. `pod` is parsed from `raw`. `to_nothing`: whether it may request no CPU or memory at all."""

    framework: Framework
    cache: Cache
    pod: PodInfo
    raw: Raw
    node: NodeInfo
    to_nothing: bool = False


def spec_of(raw: Raw) -> Raw:
    """A deep copy of the pod, to be changed."""
    made = copy.deepcopy(raw)
    made["spec"] = dict(made.get("spec") or {})
    return made
