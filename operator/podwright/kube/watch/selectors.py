"""Field selectors of pods."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

ASSIGNED_PODS: Final = "spec.nodeName!="
PENDING_PODS: Final = "spec.nodeName="
MANY_NAMES: Final = 16
"""With more scheduler names than this, one list of the pending pods of all schedulers costs the API server less than
one for each name, because it goes through all pods for each; and a selector that excludes them all would become too
long for a URL."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})


def escaped(value: str) -> str:
    """The value as it has to be written in a field selector (k8s.io/apimachinery, fields.EscapeValue)."""
    return value.translate(_ESCAPES)


def pending_pods_of(scheduler_name: str) -> str:
    """Pending pods that ask for this scheduler."""
    return f"{PENDING_PODS},spec.schedulerName={escaped(scheduler_name)}"


def pending_pods_except(*scheduler_names: str) -> str:
    """Pending pods that ask for none of these schedulers."""
    return ",".join((PENDING_PODS, *(f"spec.schedulerName!={escaped(name)}" for name in scheduler_names)))


def pods_that_may_ask_for(scheduler_names: Collection[str]) -> str:
    """All pending pods, without those of the default scheduler unless its name is among these. It usually has by far
    the most.
    """
    if KUBERNETES_DEFAULT_SCHEDULER_NAME in scheduler_names:
        return PENDING_PODS
    return pending_pods_except(KUBERNETES_DEFAULT_SCHEDULER_NAME)
