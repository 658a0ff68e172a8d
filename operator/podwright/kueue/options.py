"""The options of `podwright admission-check`: some of those that every scheduler process has
(`kube/options/options.py`), and its own.
"""

from __future__ import annotations

from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.definitions import definitions, option
from podwright.kube.options.options import OPTIONS, Options
from podwright.kube.options.values import DURATION, SWITCH, OptionsError

CHECK_LEASE: Final = "podwright-admission-check"
"""The default name of its Lease."""


MOST_RETRIES: Final = 5
"""If more Workloads than this would come back each second, they wait for longer than longest_retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Raises OptionsError for values that contradict each other. `common`: the options that other processes have,
    too.
    """

    common: Options
    hold: float = option(DURATION, "For how long a place is held for the pods.", default="10m")
    first_retry: float = option(
        DURATION,
        "When Kueue tries a Workload again that does not fit. Each further time is twice as long.",
        default="15s",
    )
    longest_retry: float = option(
        DURATION, "The longest of these times, unless thousands of Workloads wait so.", default="10m"
    )
    reject_what_never_fits: bool = option(
        SWITCH,
        "Reject a Workload that no node of the cluster can ever take, as the nodes are now. Kueue deactivates it then. By default it is "
        "tried again.",
        default="false",
    )

    def __post_init__(self) -> None:
        for name in ("hold", "first_retry", "longest_retry"):
            if getattr(self, name) < 1:
                raise OptionsError(f"--{name.replace('_', '-')} must be at least 1s")
        if self.longest_retry < self.first_retry:
            raise OptionsError("--longest-retry must not be less than --first-retry")

    def pause(self, retries: int, noes: int = 0) -> int:
        """Seconds until the next attempt. `retries`: how many there were; `noes`: how many Workloads wait so."""
        longest = max(self.longest_retry, noes / MOST_RETRIES)
        return max(1, round(min(longest, self.first_retry * 2.0 ** min(retries, 32))))


CHECK_OPTIONS: Final = tuple(definitions(CheckOptions))
"""The definitions of the command's own options."""
_NOT_HERE: Final = frozenset(
    (
        *(
            "write_config_to",
            "shadow_only",
            "pod_intake",
            "extenders",
            "extender_attempts",
            "scheduled_events_per_second",
            "queue_sort",
            "page",
            "grace",
            "gather_after",
        ),
        *("pod_initial_backoff_seconds", "pod_max_backoff_seconds", "pod_max_in_unschedulable_pods_duration"),
    )
)
COMMON_OPTIONS: Final = tuple(each for each in OPTIONS if not each.no_effect and each.name not in _NOT_HERE)
"""The definitions of the options of other processes that the command has, too."""
