"""A queue on a clock that stands still, with plugins that reject and hint as their names say."""

from __future__ import annotations

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.queue import DEFAULT_WAITS, SchedulingQueue
from support.objects.builders import make_pod

NODE_ADDED = ClusterEvent(NODE, Action.ADD)
POD_GONE = ClusterEvent(ASSIGNED_POD, Action.DELETE)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Harness(Observer):
    """A queue with plugin Fit (helped by nodes), Spread (by pods that go, never by those called `no`), Gate and Wait."""

    def __init__(self, waits=DEFAULT_WAITS):
        self.clock = Clock()
        self.incoming = []
        self.hinted = []
        self.hints = {
            "Fit": (EventHint(NODE_ADDED),),
            "Spread": (EventHint(POD_GONE, lambda _pod, before, _after: Hint.SKIP if before == "no" else Hint.QUEUE),),
            "Gate": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),),
            "Wait": (EventHint(NODE_ADDED),),
        }
        self.queue = SchedulingQueue(
            self.clock,
            sort_key=lambda pod, queued_at: (-pod.priority, queued_at),
            pre_enqueue=lambda pod: unresolvable("gated").by("Gate") if pod.gates else None,
            hints_of=lambda _pod: self.hints,
            observer=self,
            waits=waits,
        )

    def start(self):
        return self.clock()

    def pod_queued(self, queue, event):
        self.incoming.append((queue, event))

    def hint_ended(self, started, plugin, event, result):
        self.hinted.append((plugin, event, result, self.clock() - started))

    def pod(self, name, *, gates=(), **more):
        return parse_pod(
            make_pod(name, spec={"schedulingGates": [{"name": gate} for gate in gates]}, **more), keep_raw=True
        )

    def add(self, name, **more):
        self.queue.add(self.pod(name, **more))

    def pop(self):
        queued = self.queue.pop()
        return queued and queued.pod.name

    def rejected(self, name, *plugins, **more):
        """Adds a pod and has its attempt rejected by the plugins."""
        self.add(name)
        queued = self.queue.pop()
        self.queue.reject(queued, plugins, **more)
        return queued

    def counts(self):
        return {place: n for place, n in self.queue.counts().items() if n}
