"""What the operator's own options say about policies: what the built-in policy serves, and what SchedulerPolicies may do.

A SchedulerPolicy is written by users of the cluster, the options by those who run the operator. So a policy takes pods of the
default scheduler only if the options name it. The checks run for each policy before it becomes active: see
podwright/api/policy_set.py next.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME, PolicyError, SchedulerPolicy
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

ANY_NAME: Final = "*"


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """`scheduler_name`: the scheduler name that the built-in policy serves; `queue_sort`: the plugin that orders the queue.

    `allowed_scheduler_names`: patterns of the scheduler names that policies may serve, where `*` stands for any text. Policies may
    always serve `scheduler_name`. No pattern with `*` matches `default-scheduler`: it has to be listed by its name.
    """

    scheduler_name: str = PODWRIGHT_SCHEDULER_NAME
    queue_sort: str = QUEUE_SORT
    allowed_scheduler_names: tuple[str, ...] = (ANY_NAME,)

    def allows_scheduler_name(self, name: str) -> bool:
        """Whether policies may serve this scheduler name."""
        if name == self.scheduler_name or name in self.allowed_scheduler_names:
            return True
        return name != KUBERNETES_DEFAULT_SCHEDULER_NAME and any(
            fnmatchcase(name, pattern) for pattern in self.allowed_scheduler_names
        )


DEFAULT_SETTINGS: Final = PolicySettings()


def check_scheduler_name(policy: SchedulerPolicy, settings: PolicySettings) -> None:
    """Raises PolicyError if the operator does not allow the scheduler name of the policy."""
    name = policy.spec.scheduler_name
    if settings.allows_scheduler_name(name):
        return
    allowed = ",".join(settings.allowed_scheduler_names)
    problem = f"{name!r} is not allowed by the operator's flag --allowed-scheduler-names={allowed}"
    if name == KUBERNETES_DEFAULT_SCHEDULER_NAME:
        problem = (
            f"{name!r} is only allowed if the operator runs with --scheduler-name={name} or lists it in "
            "--allowed-scheduler-names, because two schedulers must not serve the same pods"
        )
    raise PolicyError(policy.name, "NotAllowed", [("spec.schedulerName", problem)])
