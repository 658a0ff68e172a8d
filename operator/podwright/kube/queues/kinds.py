"""The APIs of queues, in the order in which they count: if objects of several have one name, the first is the queue."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from podwright.api.kai_queue import (
    KAI_FIELDS,
    KAI_LABEL,
    kai_amount_path,
    kai_status_of,
    parse_kai_queue,
)
from podwright.api.queue_status import QueueReport, status_of
from podwright.api.scheduling_queue import parse_queue
from podwright.api.volcano_queue import (
    ROOT,
    VOLCANO_FIELDS,
    VOLCANO_LABEL,
    VOLCANO_SCHEDULER,
    parse_volcano_queue,
    volcano_amount_path,
    volcano_status_of,
)
from podwright.core.framework.validation import path_text
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.kai_groups import KAI_SCHEDULER
from podwright.core.objects.pod import QUEUE_ANNOTATION
from podwright.core.objects.raw import Raw
from podwright.core.queues.flavors import field_of
from podwright.core.queues.queues import QueueRules
from podwright.kube.kinds import KAI_QUEUE, QUEUE, VOLCANO_QUEUE, Resource

_AMOUNT: Final = re.compile(r"spec\.resources\[(.*)\]\.(guarantee|limit)")


@dataclass(frozen=True, slots=True, eq=False)
class QueueKind:
    """One API. `about`: for log lines. `parse` raises InvalidObjectError."""

    resource: Resource
    about: str
    parse: Callable[[Raw], QueueRules]
    status_of: Callable[[QueueReport], dict[str, Any]]
    parent: str = "spec.parent"
    """The field that names the queue above."""
    amount_path: Callable[[str, str], tuple[str, ...]] | None = None
    """Returns the path of the `guarantee`, `limit` or `lendingLimit` of a resource; empty if the API has no such field.
    None: see `field_of`.
    """
    keys: tuple[str, ...] = ()
    """The labels and annotations by which pods name queues of this API, besides our own label."""
    scheduler_name: str = ""
    """The API's own scheduler. Its queues count only while we serve this name: otherwise it looks after them itself."""
    fields: tuple[str, ...] = ()
    """The fields of the spec that a simulation may set; one that ends with / is followed by the name of a resource. Of
    a SchedulingQueue, the simulation knows them.
    """
    implied: QueueRules | None = None
    """A queue that is there as soon as there is any other."""

    @property
    def key(self) -> str:
        return f"{self.resource.kind}.{self.resource.group}"

    def refuses(self, problem: InvalidObjectError) -> bool:
        """True if a queue with this problem in the tree is not accepted. Other APIs allow children that are guaranteed
        more than their parent.
        """
        return self is SCHEDULING_QUEUES or self.place(problem.where) == self.parent

    def amount(self, resource: str, key: str) -> str:
        """Returns the field with the `guarantee` or `limit` of a resource."""
        if self.amount_path is None:
            return f"{field_of(resource)}.{key}"
        return path_text(self.amount_path(resource, key)) or "spec"

    def place(self, where: str) -> str:
        """Returns the field of this API for one of a SchedulingQueue."""
        if where == SCHEDULING_QUEUES.parent:
            return self.parent
        found = _AMOUNT.fullmatch(where)
        return where if found is None else self.amount(found[1], found[2])


SCHEDULING_QUEUES: Final = QueueKind(QUEUE, "queues", parse_queue, status_of)
KAI_QUEUES: Final = QueueKind(
    KAI_QUEUE,
    "queues of KAI",
    parse_kai_queue,
    kai_status_of,
    parent="spec.parentQueue",
    amount_path=kai_amount_path,
    fields=KAI_FIELDS,
    keys=(KAI_LABEL,),
    scheduler_name=KAI_SCHEDULER,
)
VOLCANO_QUEUES: Final = QueueKind(
    VOLCANO_QUEUE,
    "queues of Volcano",
    parse_volcano_queue,
    volcano_status_of,
    amount_path=volcano_amount_path,
    fields=VOLCANO_FIELDS,
    keys=(QUEUE_ANNOTATION, VOLCANO_LABEL),
    scheduler_name=VOLCANO_SCHEDULER,
    implied=ROOT,
)
QUEUE_KINDS: Final = (SCHEDULING_QUEUES, KAI_QUEUES, VOLCANO_QUEUES)
