"""The identity of a running process, and the pod in which it runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Instance:
    """`id` is in the decision of each pod that this process binds. `pod_uid`: the pod that it runs in; empty if that is
    not known. `leads`: whether it may write now. If not, another instance may.
    """

    id: str = "podwright"
    pod_uid: str = ""
    leads: Callable[[], bool] = lambda: True


UNNAMED: Final = Instance()


def new_instance(host: str, pod_uid: str = "") -> Instance:
    """The identity of a new process. As in Kubernetes' leader election, the id begins with the name of the host."""
    return Instance(f"{host[:63]}_{secrets.token_hex(4)}", pod_uid)
