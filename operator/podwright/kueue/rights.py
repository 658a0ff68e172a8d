"""Every right that the process uses on the API server: it reads what the scheduler reads, and writes checks and places.
manifests/kueue grants these and no others (a test compares them).
"""

from __future__ import annotations

from typing import Final

from podwright.kube.client import access
from podwright.kube.kinds import EVENT, QUEUE_VIEW, RESERVATION
from podwright.kube.rights import SCHEDULING, Right
from podwright.kueue.workload import ADMISSION_CHECK, FLAVOR, WORKLOAD

_UNANSWERED: Final = "checks are not answered"
_NO_PLACE: Final = "no place is held"

CHECKING: Final = (
    *(
        each
        for each in SCHEDULING
        if (each.verb in access.READ and each.resource is not QUEUE_VIEW) or each.resource is EVENT
    ),
    *(
        Right(kind, verb, _UNANSWERED, announced=True)
        for kind in (WORKLOAD, ADMISSION_CHECK)
        for verb in ("get", *access.READ)
    ),
    Right(FLAVOR, "get", _UNANSWERED),
    Right(WORKLOAD, "patch", _UNANSWERED, "status"),
    Right(ADMISSION_CHECK, "patch", "Kueue does not use the check", "status"),
    *(Right(RESERVATION, verb, _NO_PLACE) for verb in ("create", "patch", "delete")),
)
