"""The args that both resource plugins share."""

from __future__ import annotations

from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """A resource that a plugin scores, and its weight. Weight 0 means not given, and becomes 1."""

    name: str = ""
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight == 0:
            object.__setattr__(self, "weight", 1)


DEFAULT_RESOURCES: Final = (ResourceSpec(CPU), ResourceSpec(MEMORY))
