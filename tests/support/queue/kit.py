"""A scheduling queue with a manual clock and with the queueing hints of four plugins."""

from __future__ import annotations

from functools import cache

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.framework import Framework
from podwright.core.framework.observer import Observer
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queue import DEFAULT_WAITS, SchedulingQueue
from podwright.engine.process.steps import at_once
from podwright.simulator.world import World
from support.objects.builders import in_group, make_pod

NODE_ADDED = ClusterEvent(NODE, Action.ADD)
POD_GONE = ClusterEvent(ASSIGNED_POD, Action.DELETE)


def rejected_by(queue):
    """How many waiting pods each plugin rejected."""
    return at_once(queue.rejected_by())


@cache
def default_framework():
    world = World()
    return Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Harness(Observer):
    """A queue with the hints of Fit and Wait (any new node), Spread (a deleted pod, except one called `no`) and Gate.

    Records what the queue reports: `incoming` and `hinted`. `pre_enqueue`, `hints` and `hints_of` can be replaced.
    `due`: the uids of pods that may be retried without an event. `lacking`: the plugins that leave groups no room.
    """

    def __init__(self, waits=DEFAULT_WAITS):
        self.clock = Clock()
        self.incoming = []
        self.hinted = []
        self.due = ()
        self.lacking = None
        self.hints = {
            "Fit": (EventHint(NODE_ADDED),),
            "Spread": (EventHint(POD_GONE, lambda _pod, before, _after: Hint.SKIP if before == "no" else Hint.QUEUE),),
            "Gate": (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),),
            "Wait": (EventHint(NODE_ADDED),),
        }
        self.queue = SchedulingQueue(
            self.clock,
            sort_key=lambda pod, queued_at: (-pod.priority, queued_at),
            pre_enqueue=lambda pod: self.pre_enqueue(pod),  # noqa: PLW0108 -- a test may replace the method later
            hints_of=lambda pod: self.hints_of(pod),  # noqa: PLW0108 -- as above
            estimate=default_framework().estimate,
            room_checks=lambda: lambda _pod: self.lacking,
            also_due=lambda: self.due,
            observer=self,
            waits=waits,
        )

    def hints_of(self, _pod):
        return self.hints

    def pre_enqueue(self, pod):
        return unresolvable("gated").by("Gate") if pod.gates else None

    def start(self):
        return self.clock()

    def pod_queued(self, queue, event):
        self.incoming.append((queue, event))

    def hint_ended(self, started, plugin, event, result):
        self.hinted.append((plugin, event, result, self.clock() - started))

    def pod(self, name, *, gates=(), group="", **more):
        spec = {"schedulingGates": [{"name": gate} for gate in gates], **(in_group(group) if group else {})}
        return parse_pod(make_pod(name, spec=spec, **more), keep_raw=True)

    def add(self, name, **more):
        self.queue.add(self.pod(name, **more))

    def pop(self):
        queued = self.queue.pop()
        return queued and queued.pod.name

    def rejected(self, name, *plugins, **more):
        """Adds a pod, pops it, and rejects it by these plugins."""
        self.add(name)
        queued = self.queue.pop()
        self.queue.reject(queued, plugins, **more)
        return queued

    def counts(self):
        return {place: n for place, n in self.queue.counts().items() if n}
