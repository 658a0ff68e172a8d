"""What queues have used over time: an average with a half-life, and resource-hours.

Between two samples, a queue counts as using what it had at the second one. The caller passes the time in, in seconds
since the epoch, and saves the record, so that it survives a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HOUR = 3600.0


@dataclass(slots=True)
class Record:
    """What one queue has used, by resource: on average, and in resource-hours since the record began. `at`: the time of
    the last sample; 0 before the first one.
    """

    at: float = 0.0
    average: dict[str, float] = field(default_factory=dict)
    hours: dict[str, float] = field(default_factory=dict)

    def sample(self, held: Mapping[str, int], now: float, half_life: float) -> None:
        """The queue has had these amounts since the last sample. `half_life`: in seconds; 0: there is no average."""
        seconds = max(0.0, now - self.at) if self.at else 0.0
        self.at = now
        for resource, amount in held.items():
            self.hours[resource] = self.hours.get(resource, 0.0) + amount * seconds / HOUR
        if not half_life:
            self.average.clear()
            return
        kept = 0.5 ** (seconds / half_life)
        for resource in {*self.average, *held}:
            value = self.average.get(resource, 0.0) * kept + held.get(resource, 0) * (1.0 - kept)
            if value < 1e-6:
                self.average.pop(resource, None)
            else:
                self.average[resource] = value
