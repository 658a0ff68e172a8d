"""The parts of the rows of hostile objects, and the nodes of the clusters on which they are tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from support.engine.kit import Rig
from support.hostile import objects
from support.objects.builders import make_node

Raw = dict[str, Any]
FILLED: Final = "example.com/filled"
"""The label of the nodes with placed pods. The others, a tenth, are empty."""
DONE: Final = "done"
"""The outcome of an action."""


def node_name(index: int) -> str:
    return f"node-{index:05}"


def node(index: int, **options: Any) -> Raw:
    """A node of the harness's cluster. Nine tenths of the nodes have placed pods, and the label FILLED."""
    name = node_name(index)
    labels = {objects.HOSTNAME: name, "topology.kubernetes.io/zone": f"zone-{index % 3}", **options.pop("labels", {})}
    if index % 10:
        labels[FILLED] = "true"
    return make_node(name, labels=labels, allocatable={"cpu": "32", "memory": "128Gi"}, **options)


@dataclass(frozen=True)
class Subject:
    """The measured work: attempts at pods, or with `act` an action, which gets a number as the pods do.

    `spec` makes the spec of the pod with this number; `labels` its labels. `expected` is the outcome on a cluster of
    `support.hostile.harness`: "bound", "preempts", or the beginning of the event. `prepare` changes the cluster before
    the first attempt, and `change` before each attempt.
    """

    spec: Callable[[int], Raw] = lambda _number: {}
    expected: str = "bound"
    labels: Callable[[int], Mapping[str, str]] = lambda _number: {"app": "hostile"}
    prepare: Callable[[Rig, int], None] | None = None
    change: Callable[[Rig, int], None] | None = None
    act: Callable[[Rig, int], None] | None = None


@dataclass(frozen=True)
class Row:
    """One row. `make` returns a subject whose hostile part has this size; `size` is that of the row.

    `before` is what Podwright 0.9 needed, and `kube_scheduler` what kube-scheduler needs on a real API server with
    1,000 nodes. `live`: whether `make hostile` creates the pod on a real API server, too.
    """

    name: str
    size: int
    make: Callable[[int], Subject]
    before: str
    kube_scheduler: str = ""
    live: bool = True

    @property
    def subject(self) -> Subject:
        return self.make(self.size)

    @property
    def kind(self) -> str:
        """The name without sizes: rows of one kind differ in size only."""
        return re.sub(r"[0-9][0-9,]* ", "", self.name)
