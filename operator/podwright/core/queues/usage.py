"""The usage of queues over time: an average with a half-life, and resource-hours, also by user.

Between two samples at most MOST_SECONDS apart, a queue counts as using what it had at the second one. In a longer gap
its usage is unknown, so only the average decays. The caller passes in the time, in seconds since the epoch, and saves
the record across restarts.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from typing import Final

from podwright.core.objects.dataclass import dataclass

HOUR: Final = 3600.0
MOST_SECONDS: Final = 900.0
"""See the module. Saved records are up to ten minutes old when a process begins."""
MAX_USERS: Final = 20
"""How many users of a queue without pods keep their hours: those who have used most."""
USERS_AT_ONCE: Final = 64
"""How many are counted in one step."""


@dataclass(slots=True)
class Record:
    """The usage of one queue, by resource: the average, and the resource-hours since the record began, at `since`.
    `at`: the time of the last sample; 0 before the first one.
    """

    at: float = 0.0
    since: float = 0.0
    average: dict[str, float] = field(default_factory=dict)
    hours: dict[str, float] = field(default_factory=dict)
    users: dict[str, dict[str, float]] = field(default_factory=dict)
    """By user: the part of the hours that belongs to the user's pods."""
    users_at: float = 0.0
    """The time of their last sample."""

    def sample(self, held: Mapping[str, int], now: float, half_life: float) -> None:
        """The queue has had these amounts since the last sample. `half_life`: in seconds; 0: there is no average."""
        seconds = max(0.0, now - self.at) if self.at else 0.0
        self.at = now
        self.since = self.since or now
        if seconds > MOST_SECONDS:
            held = {}
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

    def sample_users(self, held: Mapping[str, Mapping[str, int]], now: float) -> Generator[None, None, None]:
        """The users of the queue have had these amounts since the last sample. Yields between two steps."""
        seconds = max(0.0, now - self.users_at) if self.users_at else 0.0
        self.users_at = now
        if seconds > MOST_SECONDS:
            seconds = 0.0
        for index, (user, amounts) in enumerate([*held.items()]):
            hours = self.users.setdefault(user, {})
            for resource in self.hours.keys() & amounts.keys():
                hours[resource] = hours.get(resource, 0.0) + amounts[resource] * seconds / HOUR
            if index % USERS_AT_ONCE == USERS_AT_ONCE - 1:
                yield
        if len(self.users) > MAX_USERS + len(held):
            kept = {*held, *self.largest_users()}
            self.users = {user: hours for user, hours in self.users.items() if user in kept}

    def largest_users(self) -> Sequence[str]:
        """The MAX_USERS users with the largest part of any resource, the largest first."""

        def part(user: str) -> float:
            return max(
                (used / total for r, used in self.users[user].items() if (total := self.hours.get(r))), default=0.0
            )

        return sorted(self.users, key=lambda user: (-part(user), user))[:MAX_USERS]
