"""For each shipped alert, series under which it fires, and series under which it does not.

Values are written as promtool takes them: `0+1x10` begins with 0 and adds 1 ten times, one value a minute; `_` is no
value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

A, B = 'job="podwright", instance="a"', 'job="podwright", instance="b"'
Series = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`fires`: series under which the alert fires at `at`, with these labels and summary, but not at `not_yet` (empty:
    no such time).

    `quiet`: further sets of series, under none of which it fires at `at`.
    """

    at: str
    fires: Series
    summary: str
    quiet: tuple[Series, ...]
    not_yet: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def leader(a: str, b: str = "0x2000") -> Series:
    """Who leads, over time."""
    return {
        f'leader_election_master_status{{{A}, name="podwright"}}': a,
        f'leader_election_master_status{{{B}, name="podwright"}}': b,
    }


def attempts(scheduled: str, errors: str = "0x200") -> Series:
    return {
        f'scheduler_schedule_attempts_total{{{A}, result="scheduled", profile="podwright"}}': scheduled,
        f'scheduler_schedule_attempts_total{{{A}, result="error", profile="podwright"}}': errors,
    }


def pending(queue: str, a: str, b: str = "0x200") -> Series:
    return {
        f'scheduler_pending_pods{{{A}, queue="{queue}"}}': a,
        f'scheduler_pending_pods{{{B}, queue="{queue}"}}': b,
    }


def requests(succeeded: str, failed: str, code: str) -> Series:
    return {
        f'rest_client_requests_total{{{A}, code="200", method="GET", host="h"}}': succeeded,
        f'rest_client_requests_total{{{A}, code="{code}", method="GET", host="h"}}': failed,
    }


def sli(within: str, over: str) -> Series:
    """Pods that were bound within 1 s, and in all."""
    name = "scheduler_pod_scheduling_sli_duration_seconds_bucket"
    return {
        f'{name}{{{A}, attempts="1", le="1"}}': within,
        f'{name}{{{A}, attempts="1", le="40.96"}}': over,
        f'{name}{{{A}, attempts="1", le="+Inf"}}': over,
    }


def memory(used: str, pods: str) -> Series:
    return {
        f"podwright_memory_in_use_bytes{{{A}}}": used,
        f'scheduler_cache_size{{{A}, type="pods"}}': pods,
    }


def owed(a: str, b: str = "0x40") -> Series:
    """Series that say if a queue is owed room, as the leader A and the standby B see it."""
    return {
        **leader("1x40", "0x40"),
        f'podwright_queue_owed{{{A}, queue="ml"}}': a,
        f'podwright_queue_owed{{{B}, queue="ml"}}': b,
        f'podwright_queue_owed{{{A}, queue="web"}}': "0x40",
    }


def signal(age: str, nodes: str, leads: str = "1x40", cluster: str = "3x40") -> Series:
    """A signal of one instance: the age of its newest sample, and how many nodes have one that counts."""
    return {
        f'podwright_signal_age_seconds{{{A}, signal="load"}}': age,
        f'podwright_signal_nodes{{{A}, signal="load"}}': nodes,
        f'leader_election_master_status{{{A}, name="podwright"}}': leads,
        f'scheduler_cache_size{{{A}, type="nodes"}}': cluster,
    }


_INSTANCE = {"job": "podwright", "instance": "a"}
_HEALTH = f'kubernetes_healthcheck{{{A}, name="watches", type="readyz"}}'
_OTHERS = f"podwright_other_instances_bindings_total{{{A}}}"
_EXCEPTIONS = f'podwright_plugin_exceptions_total{{{A}, plugin="Mine", extension_point="Filter"}}'
_POLICIES = f'podwright_policies{{{A}, state="refused"}}'
_QUEUES = f'podwright_queues{{{A}, state="refused"}}'
_WATCH = f'podwright_watch_blind_seconds{{{A}, watch="nodes"}}'
_SILENT = f"podwright_api_server_silent_seconds{{{A}}}"
_REFUSED = f"podwright_credentials_refused_seconds{{{A}}}"
_DROPPED = f"podwright_events_dropped_total{{{A}}}"
_LOST = f'podwright_rebalance_moves_total{{{A}, result="lost"}}'
_RESTARTS = f'podwright_background_task_restarts_total{{{A}, task="events"}}'
_EXPIRES = f"podwright_certificate_expiration_timestamp_seconds{{{A}}}"
_RELOADS = f'podwright_certificate_reloads_total{{{A}, result="error"}}'

CASES: Mapping[str, Case] = {
    "PodwrightDown": Case(
        at="10m",
        not_yet="4m",
        fires={f"up{{{A}}}": "0x20", f"up{{{B}}}": "0x20"},
        summary="Prometheus reaches no instance of Podwright.",
        quiet=({f"up{{{A}}}": "0x20", f"up{{{B}}}": "1x20"},),
    ),
    "PodwrightInstanceDown": Case(
        at="20m",
        not_yet="10m",
        fires={f"up{{{A}}}": "0x30", f"up{{{B}}}": "1x30"},
        labels=_INSTANCE,
        summary="Prometheus does not reach the instance a of Podwright.",
        quiet=({f"up{{{A}}}": "1x30"}, {f"up{{{A}}}": "0 0 0 1x30"}),
    ),
    "PodwrightNoLeader": Case(
        at="5m",
        not_yet="1m",
        fires=leader("0x10"),
        labels={"name": "podwright"},
        summary="No instance of Podwright holds the Lease podwright, so no pod is scheduled.",
        quiet=(leader("1x10"), leader("1 1 0 0 0x10", "0 0 0 1 1x10"), {f"up{{{A}}}": "1x10"}),
    ),
    "PodwrightNotReady": Case(
        at="10m",
        not_yet="4m",
        fires={_HEALTH: "0x20"},
        labels={**_INSTANCE, "name": "watches", "type": "readyz"},
        summary="The check watches of the instance a fails.",
        quiet=({_HEALTH: "1x20"}, {_HEALTH: "0 0 1x20"}),
    ),
    "PodwrightTwoLeaders": Case(
        at="5m",
        not_yet="1m",
        fires=leader("1x10", "0 1x10"),
        labels={"name": "podwright"},
        summary="2 instances of Podwright say that they hold the Lease podwright.",
        quiet=(leader("1x10"), leader("1 1 0x10", "0 0 1x10")),
    ),
    "PodwrightInstancesFight": Case(
        at="5m",
        fires={_OTHERS: "0 0 0 1x10"},
        summary="Two instances of Podwright bind pods at the same time, and can over-commit nodes.",
        quiet=({_OTHERS: "7x10"},),
    ),
    "PodwrightPodsNotScheduled": Case(
        at="20m",
        not_yet="4m",
        fires={**pending("active", "3x30"), **attempts("5x30")},
        summary="Pods wait to be scheduled, and none was scheduled in the last 10 minutes.",
        quiet=(
            {**pending("active", "3x30"), **attempts("0+5x30")},
            {**pending("active", "0x30", "3x30"), **attempts("5x30"), **leader("1x30")},
            {**pending("active", "0 3 0x30"), **attempts("5x30")},
        ),
    ),
    "PodwrightPodsUnschedulable": Case(
        at="70m",
        not_yet="25m",
        fires={**pending("unschedulable", "3x80"), **leader("1x80")},
        summary="For an hour, 3 pods or more have fitted on no node.",
        quiet=(
            pending("unschedulable", "3x20 0 3x80"),
            {**pending("unschedulable", "0x80", "3x80"), **leader("1x80")},
        ),
    ),
    "PodwrightSchedulingSlow": Case(
        at="30m",
        not_yet="10m",
        fires=sli("0+90x40", "0+100x40"),
        summary="One pod in a hundred waits 36.96s or longer until it is bound.",
        quiet=(sli("0+100x40", "0+100x40"),),
    ),
    "PodwrightSchedulingErrors": Case(
        at="30m",
        not_yet="5m",
        fires=attempts("0+90x40", "0+10x40"),
        summary="10% of the attempts to schedule pods end with an error.",
        quiet=(attempts("0+99x40", "0+1x40"), attempts("0x40", "0x40")),
    ),
    "PodwrightPluginExceptions": Case(
        at="20m",
        not_yet="9m",
        fires={_EXCEPTIONS: "_x10 1x40"},
        labels={"plugin": "Mine", "extension_point": "Filter"},
        summary="The plugin Mine raises exceptions at Filter.",
        quiet=({_EXCEPTIONS: "1x40"}, {f"up{{{A}}}": "1x40"}),
    ),
    "PodwrightCostlyPods": Case(
        at="40m",
        not_yet="10m",
        fires={f"podwright_costly_pods{{{A}}}": "2x50"},
        summary="For half an hour, 2 pods or more have waited in the lane of costly pods.",
        quiet=(
            {f"podwright_costly_pods{{{A}}}": "2x20 0 2x50"},
            {f"podwright_costly_pods{{{B}}}": "2x50", **leader("1x50")},
        ),
    ),
    "PodwrightPolicyRefused": Case(
        at="15m",
        not_yet="5m",
        fires={_POLICIES: "1x20"},
        summary="The newest generation of 1 SchedulerPolicies is not accepted.",
        quiet=({_POLICIES: "0x20"}, {_POLICIES: "1 1 1 0x20"}),
    ),
    "PodwrightQueueRefused": Case(
        at="15m",
        not_yet="5m",
        fires={_QUEUES: "2x20"},
        summary="The newest generation of 2 SchedulingQueues is not accepted.",
        quiet=({_QUEUES: "0x20"}, {_QUEUES: "1 1 1 0x20"}),
    ),
    "PodwrightQueueBelowShare": Case(
        at="15m",
        not_yet="5m",
        fires=owed("1x40"),
        labels={"queue": "ml"},
        summary="Pods of queue ml wait, although it has less than its share.",
        quiet=(owed("0x40", "1x40"), owed("1x8 0 1x40")),
    ),
    "PodwrightRebalanceChurn": Case(
        at="70m",
        not_yet="5m",
        fires={_LOST: "0x10 1x10 3x10 4x60"},
        summary="Of the pods that were moved within an hour, 4 did not come to their places.",
        quiet=({_LOST: "0x10 2x80"}, {_LOST.replace("lost", "moved"): "0+1x90"}),
    ),
    "PodwrightWatchBlind": Case(
        at="6m",
        not_yet="2m",
        fires={_WATCH: "0+60x10"},
        labels={**_INSTANCE, "watch": "nodes"},
        summary="For 6m 0s, the instance a has not seen changes of nodes.",
        quiet=({_WATCH: "0x10"}, {_WATCH: "0 60 0x10"}),
    ),
    "PodwrightAPIServerSilent": Case(
        at="5m",
        not_yet="1m",
        fires={_SILENT: "0+60x10"},
        labels=_INSTANCE,
        summary="The API server has not answered the instance a for 5m 0s.",
        quiet=({_SILENT: "0 50 0x10"},),
    ),
    "PodwrightCredentialsRefused": Case(
        at="5m",
        not_yet="1m",
        fires={_REFUSED: "0+60x10"},
        labels=_INSTANCE,
        summary="The API server refuses the credentials of the instance a.",
        quiet=({_REFUSED: "0 50 0x10"},),
    ),
    "PodwrightAPIErrors": Case(
        at="30m",
        not_yet="5m",
        fires=requests("0+90x40", "0+10x40", "<error>"),
        labels={"instance": "a"},
        summary="10% of the requests of a to the API server fail.",
        quiet=(requests("0+90x40", "0+10x40", "409"), requests("0+99x40", "0+1x40", "500")),
    ),
    "PodwrightAPIThrottled": Case(
        at="30m",
        not_yet="5m",
        fires=requests("0+90x40", "0+60x40", "429"),
        labels={"instance": "a"},
        summary="The API server throttles a, 1 times a second.",
        quiet=(requests("0+90x40", "0+1x40", "429"),),
    ),
    "PodwrightEventsDropped": Case(
        at="20m",
        fires={_DROPPED: "0x10 15x20"},
        labels={"instance": "a"},
        summary="The instance a could not post 15 events.",
        quiet=({_DROPPED: "15x40"},),
    ),
    "PodwrightSignalStale": Case(
        at="30m",
        not_yet="14m",
        fires=signal("30x10 60+60x30", "3x10 0x30"),
        labels={"signal": "load"},
        summary="No node has a number of the signal load that counts. The age of the newest is 20m 0s.",
        quiet=(
            signal("30x10 60+60x30", "3x10 1x30"),
            signal("30x10 60+60x30", "3x10 0x30", leads="0x40"),
            signal("30x10 60+60x30", "3x10 0x30", cluster="0x40"),
        ),
    ),
    "PodwrightTaskRestarts": Case(
        at="50m",
        not_yet="20m",
        fires={_RESTARTS: "_x30 1 2 3x40"},
        labels={"instance": "a", "task": "events"},
        summary="The task events of a ended and was started again, 3 times in 30 minutes.",
        quiet=({_RESTARTS: "_x30 1x60"}, {_RESTARTS: "9x90"}),
    ),
    "PodwrightMemoryGrows": Case(
        at="2000m",
        not_yet="1400m",
        fires=memory("100x1440 200x800", "50x2400"),
        labels=_INSTANCE,
        summary="The instance a uses half as much memory again as a day ago, for as many objects.",
        quiet=(memory("100x1440 200x800", "50x1440 100x800"), memory("100x2400", "50x2400")),
    ),
    "PodwrightCertificateExpires": Case(
        at="20m",
        not_yet="5m",
        fires={_EXPIRES: "87600x30"},
        labels=_INSTANCE,
        summary="The certificate of a expires in 1d 0h 0m 0s.",
        quiet=({_EXPIRES: "700000x30"},),
    ),
    "PodwrightCertificateNotReloaded": Case(
        at="20m",
        fires={_RELOADS: "0x10 1x20"},
        labels={"instance": "a"},
        summary="The instance a cannot use the new certificate and keeps the former one.",
        quiet=({_RELOADS: "0x40"},),
    ),
}
