"""The plugin handle that the benchmarks of single plugins share."""

from dataclasses import dataclass, field
from typing import Any

from podwright.core.framework.features import Features
from podwright.core.state.cache import Cache


@dataclass
class BenchHandle:
    """A plugin handle with nothing but a cache."""

    cache: Cache
    features: Features = field(default_factory=Features)
    cluster: Any = None

    def now(self) -> float:
        return 0.0
