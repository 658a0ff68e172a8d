"""What the args of both resource plugins have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podwright.core.objects.resources import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """A resource that counts in a score. A weight of 0 is 1, as if it were not given."""

    name: str = ""
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight == 0:
            object.__setattr__(self, "weight", 1)


DEFAULT_RESOURCES: Final = (ResourceSpec(CPU), ResourceSpec(MEMORY))
