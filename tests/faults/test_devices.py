"""Pods get devices while the operator is killed (SIGKILL), the driver republishes its slices and taints devices, the
API server is gone, and another scheduler takes devices, too.

PODWRIGHT_KILLS sets the number of kills in the short test (4). The slow test kills 50 times, under 1,000 pods.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from podwright.testing import wait_until
from support.control_plane import device_driver as dra
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.claim_ledger import ClaimLedger
from support.faults.proxy import FaultProxy, Faults

OTHER = "podwright-other"
KUBE_SCHEDULER = "default-scheduler"


@pytest.fixture
def claims(arena: Arena) -> Iterator[None]:
    """The controller that makes claims from templates and takes pods that are gone out of them."""
    manager = arena.cluster.start_controller_manager(["resourceclaim-controller", "garbage-collector-controller"])
    arena.cluster.client.create(dra.template("one", arena.namespace))
    yield
    arena.delete_pods()
    dra.delete_claims(arena.cluster, arena.namespace)
    manager.stop()


def devices_of(nodes: int) -> Mapping[str, Sequence[str]]:
    """Eight devices for each node."""
    return {f"n{i}": [f"gpu-{j}" for j in range(8)] for i in range(nodes)}


def is_write_to_claim(method: str, path: str) -> bool:
    return method in ("PUT", "PATCH", "POST") and (path.endswith("/binding") or "/resourceclaims" in path)


def verify(arena: Arena, pods: int) -> None:
    """Each pod is bound, to the node of the device that its claim has, and each claim is reserved for its pod.

    kube-controller-manager may have made a claim twice, if it has not got the answer to the first creation. The one
    that the pod named when it was bound counts.
    """
    assert dra.faults(arena.cluster) == []
    claims = {raw["metadata"]["name"]: raw for raw in dra.claims(arena.cluster, arena.namespace)}
    placed = [raw for raw in kit.pods(arena.cluster, arena.namespace) if raw["spec"].get("nodeName")]
    assert len(placed) == pods
    uids = {raw["metadata"]["uid"] for raw in placed}
    wait_until(lambda: uids <= arena.ledger.bindings.keys(), 30, "the ledger has recorded the bindings")
    for raw in placed:
        own = {
            name: claim
            for name, claim in claims.items()
            if claim["metadata"]["ownerReferences"][0]["uid"] == raw["metadata"]["uid"]
        }
        claim = own[named_when_bound(arena, raw, own)]
        pools = [result["pool"] for result in dra.results_of(claim)]
        assert pools == [raw["spec"]["nodeName"]], told(arena, raw, own)
        assert dra.consumers(claim) == [raw["metadata"]["uid"]], told(arena, raw, own)
        del claims[claim["metadata"]["name"]]
    wait_until(lambda: not allocated(arena, claims), 30, "only claims that pods name have devices")


def named_when_bound(arena: Arena, pod: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> str:
    """The claim that a pod named when it was bound. `own`: those that were made for it, by name.

    Of two claims, kube-controller-manager may name the other one later: while its informer of pods is behind, it does
    not see that the pod names one, and names any (`findPodResourceClaim` in its pkg/controller/resourceclaim).
    """
    (then,) = arena.ledger.bindings[pod["metadata"]["uid"]].pod.generated_claims.values()
    (now,) = (entry["resourceClaimName"] for entry in pod["status"]["resourceClaimStatuses"])
    if now != then:
        assert own.keys() >= {then, now}, told(arena, pod, own)
        assert managers(pod, "status", "resourceClaimStatuses") == {"ResourceClaimController"}, told(arena, pod, own)
        for name in (then, now):
            assert managers(own[name], "spec") == {"kube-controller-manager"}, told(arena, pod, own)
    return then


def managers(raw: Mapping[str, Any], *field: str) -> set[str]:
    """Who has written this field of the object."""
    found = set()
    for entry in raw["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for name in field:
            fields = fields.get(f"f:{name}", {})
        if fields:
            found.add(entry["manager"])
    return found


def told(arena: Arena, pod: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the known state of a pod's claims, for the message of a failure."""

    def line(raw: Mapping[str, Any]) -> str:
        metadata = raw["metadata"]
        written = [
            (entry["manager"], entry.get("subresource", ""), entry["time"]) for entry in metadata["managedFields"]
        ]
        times = f"created {metadata['creationTimestamp']}, version {metadata['resourceVersion']}, written {written}"
        return f"{metadata['name']}: {raw.get('status')}, {times}"

    binding = arena.ledger.bindings[pod["metadata"]["uid"]]
    when = f"bound to {binding.node_name} in version {binding.version}, naming {binding.pod.generated_claims}"
    return "\n".join([when, line(pod), *map(line, own.values())])


def allocated(arena: Arena, names: Collection[str]) -> list[str]:
    """Those of the claims of these names that have devices."""
    claims = dra.claims(arena.cluster, arena.namespace)
    return [name for raw in claims if dra.results_of(raw) and (name := raw["metadata"]["name"]) in names]


def wait_until_writing(proxy: FaultProxy) -> int:
    """Waits until the operator writes claims or Bindings. Returns the number of requests."""
    writes = 0

    def writing() -> bool:
        nonlocal writes
        writes = proxy.in_flight(is_write_to_claim)
        return writes > 0

    wait_until(writing, 60, "claims are being written")
    return writes


def kill_repeatedly(arena: Arena, kills: int, pods: int) -> None:
    """A quarter of the pods is deleted meanwhile, whether bound or not, and there are just enough devices for the
    others.
    """
    randomness = random.Random(kills)
    cluster = arena.cluster
    left, interrupted = pods - pods // 4, 0
    nodes = -(-left // 8)
    arena.nodes(nodes, pods="100")
    with dra.Driver(cluster, devices_of(nodes)) as driver, FaultProxy(cluster) as proxy:
        proxy.faults = [Faults({}, is_write_to_claim, delay=0.3, response_delay=0.3)]
        with driver.republishing(), arena.creating_pods(pods, pods / kills / 3, cpu="1m", **dra.from_template("one")):
            deleted = 0
            for kill in range(kills):
                operator = arena.start(proxy, ready=False)
                if kill == 0:  # nothing has a device yet
                    interrupted += wait_until_writing(proxy)
                else:
                    if randomness.random() < 0.8:
                        operator.process.wait_ready(lambda operator=operator: operator.ready, 60)
                    time.sleep(randomness.uniform(0, 1.5))
                    interrupted += proxy.in_flight(is_write_to_claim)
                os.kill(operator.process.pid, signal.SIGKILL)
                operator.process.wait(10)
                while deleted < (pods - left) * (kill + 1) // kills:
                    arena.retry(lambda deleted=deleted: cluster.client.delete(arena.pod(f"p{4 * deleted}")))
                    deleted += 1
        for i in range(pods - left):  # those that were not created yet
            cluster.client.delete(arena.pod(f"p{4 * i}"))
        proxy.faults = []
        started = time.monotonic()
        with arena.running(None, warm_up=False):
            wait_until(lambda: kit.bound(cluster, arena.namespace) == left, 180, "all pods are bound")
            recovered = time.monotonic() - started
            wait_until(lambda: not dra.faults(cluster), 60, "no claim is reserved for a pod that is gone")
            assert not arena.ledger.moved
            verify(arena, left)
        arena.report(
            pods=pods,
            devices=nodes * 8,
            faults=f"{kills} times SIGKILL, {interrupted} writes in flight, slices of generation {driver.generation}",
            seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
        )
    assert interrupted


@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_when_the_operator_is_killed_repeatedly(arena: Arena) -> None:
    kills = int(os.environ.get("PODWRIGHT_KILLS", "4"))
    kill_repeatedly(arena, kills, 20 * kills)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_when_the_operator_is_killed_50_times(arena: Arena) -> None:
    kill_repeatedly(arena, 50, 1000)


@dataclass(frozen=True)
class Contest:
    """Two schedulers' requests: the driver's further arguments, and the content of our request and of theirs."""

    driver: Mapping[str, Any]
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]


def on_side(side: str) -> Mapping[str, Any]:
    return {"selectors": [{"cel": {"expression": f"device.attributes['gpu.example.com'].side == '{side}'"}}]}


def half(name: str) -> Mapping[str, Any]:
    """The devices gpu-0 and gpu-1 are halves of a board, gpu-2 and gpu-3 of the next. Either needs all of it."""
    number = int(name.removeprefix("gpu-"))
    consumed = [{"counterSet": "board", "counters": {f"c{number // 2}": {"value": "1"}}}]
    return {"attributes": {"side": ("left", "right")[number % 2]}, "consumesCounters": consumed}


SHARE = {"capacity": {"requests": {"units": "5"}}}
CONTESTS = {
    "device": Contest({}, {}, {}),
    "capacity": Contest({"allowMultipleAllocations": True, "capacity": {"units": "8"}}, SHARE, SHARE),
    "counter": Contest(
        {"counters": {f"c{i}": "1" for i in range(8)}, "define": half}, on_side("left"), on_side("right")
    ),
}
"""By what is contested: a device, a capacity of which a share needs more than half, or a counter of which each half of
a board needs all.
"""


def contested_by(arena: Arena, kind: str, nodes: int) -> dra.Driver:
    """A driver of eight devices for each node that only one claim can have at a time, and the templates `ours` and
    `theirs`.
    """
    contest = CONTESTS[kind]
    arena.nodes(nodes, pods="100")
    for name, request in (("ours", contest.ours), ("theirs", contest.theirs)):
        arena.cluster.client.create(dra.template(name, arena.namespace, **request))
    devices = 16 if kind == "counter" else 8
    return dra.Driver(
        arena.cluster, {f"n{i}": [f"gpu-{j}" for j in range(devices)] for i in range(nodes)}, **contest.driver
    )


def wanted(template: str) -> Mapping[str, Any]:
    """The parts of a pod's spec by which it prefers the two nodes whose 16 devices all others prefer, too."""
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "n1"]}
    term = {"weight": 100, "preference": {"matchExpressions": [match]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {**dra.from_template(template), "affinity": affinity}


def reported(arena: Arena) -> set[str]:
    """The uids of the claims with an event that says they got what was taken."""
    return {event["regarding"]["uid"] for event in kit.events(arena.cluster, arena.namespace, "DeviceAllocatedTwice")}


def wait_each_reported(arena: Arena, ledger: ClaimLedger, operator: kit.Operator, kind: str) -> None:
    """The ledger, the events and the metric follow the pods. Until they come, all are empty."""
    counted = lambda: operator.metric("podwright_devices_allocated_twice_total", kind=kind)
    wait_until(lambda: len(ledger.later) > 0, 30, "a device was chosen twice")
    wait_until(lambda: reported(arena) == ledger.later.keys(), 30, "each case is reported")
    wait_until(lambda: counted() >= len(ledger.later), 30, "each case is counted")


@pytest.mark.parametrize("kind", ["device", "counter", pytest.param("capacity", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("claims")
def test_two_schedulers_never_bind_pods_to_one_device(arena: Arena, kind: str) -> None:
    """They do not know of each other. Each chooses the same half of the devices before it sees a write of the other."""
    cluster, pods = arena.cluster, 32
    with (
        contested_by(arena, kind, pods // 8),
        ClaimLedger(cluster) as ledger,
        FaultProxy(cluster) as one,
        FaultProxy(cluster) as other,
    ):
        for proxy in (one, other):
            proxy.faults = [Faults({}, is_write_to_claim, delay=0.2)]
            proxy.hold(is_write_to_claim)
        second = arena.running(other, f"--scheduler-name={OTHER}", warm_up=False, name="second")
        with arena.running(one, warm_up=False, name="first") as first, second:
            arena.pods(pods // 2, "ours", cpu="1m", **wanted("ours"))
            arena.pods(pods // 2, "theirs", cpu="1m", scheduler=OTHER, **wanted("theirs"))
            wait_until(lambda: one.held() == other.held() == pods // 2, 60, "both have chosen")
            for proxy in (one, other):
                proxy.release()
            wait_until(lambda: kit.bound(cluster, arena.namespace) == pods, 120, "all pods are bound")
            verify(arena, pods)
            wait_each_reported(arena, ledger, first, kind)
        arena.report(pods=pods, faults=f"a second scheduler wants each {kind}", claims_with_a_rival=len(ledger.later))


SLOW_KINDS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("capacity", "counter")]


@pytest.mark.parametrize("kind", ["device", *SLOW_KINDS])
@pytest.mark.usefixtures("claims")
def test_each_device_that_kube_scheduler_takes_at_the_same_time_is_reported(arena: Arena, kind: str) -> None:
    """Podwright never takes a device that it has to know is taken. kube-scheduler does not look, so the pods of both
    may keep one.
    """
    cluster, pods = arena.cluster, 64
    kube_scheduler = cluster.start_scheduler()
    try:
        with contested_by(arena, kind, pods // 8), ClaimLedger(cluster) as ledger, FaultProxy(cluster) as proxy:
            proxy.faults = [Faults({}, is_write_to_claim, delay=0.1)]
            proxy.hold(is_write_to_claim)
            with arena.running(proxy, warm_up=False) as operator:
                arena.pods(pods // 4, "ours-first", cpu="1m", **wanted("ours"))
                wait_until(
                    lambda: proxy.held() == pods // 4, 60, "Podwright has chosen, and kube-scheduler does not know"
                )
                arena.pods(pods // 2, "theirs", cpu="1m", scheduler=KUBE_SCHEDULER, **wanted("theirs"))
                arena.pods(pods // 4, "ours", cpu="1m", **wanted("ours"))
                with_devices = lambda: sum(bool(dra.results_of(raw)) for raw in dra.claims(cluster, arena.namespace))
                wait_until(lambda: with_devices() >= pods // 4, 60, "kube-scheduler takes devices")
                proxy.release()
                wait_until(lambda: kit.bound(cluster, arena.namespace) == pods, 120, "all pods are bound")
                wait_each_reported(arena, ledger, operator, kind)
                claims = dra.claims(cluster, arena.namespace)
                kept = dra.excesses(claims, cluster.client.items(f"{dra.GROUP}/resourceslices"))
                ours = {
                    raw["metadata"]["uid"]
                    for raw in claims
                    if raw["metadata"]["ownerReferences"][0]["name"].startswith("ours")
                }
    finally:
        kube_scheduler.stop()
    for what, uids in kept.items():
        assert len(ours.intersection(uids)) <= 1, f"two pods of ours have {what}"
        assert ledger.later.keys() & set(uids) - ours, f"{what}: a claim of kube-scheduler came later"
    arena.report(
        pods=pods,
        faults=f"kube-scheduler wants each {kind}",
        claims_with_a_rival=len(ledger.later),
        given_back=len(ledger.later.keys() & ours),
        kept_by_kube_scheduler_too=len(kept),
    )


def disturb(arena: Arena, pods: int, outages: int) -> None:
    """The driver republishes its slices all the time, with other devices tainted each time, and the API server is gone
    for 10 s, repeatedly.

    Before each outage some pods are created that must be under way when it comes.
    """
    cluster, randomness = arena.cluster, random.Random(pods)
    at_once = 4
    pods += outages * at_once
    nodes = -(-pods // 6) + 2  # a quarter of the devices is tainted
    arena.nodes(nodes, pods="100")
    names = [f"gpu-{j}" for j in range(8)]
    interrupted = 0
    with dra.Driver(cluster, devices_of(nodes)) as driver, FaultProxy(cluster) as proxy:
        proxy.faults = [Faults({}, is_write_to_claim, delay=0.2, response_delay=0.2)]
        with arena.running(proxy, warm_up=False):
            steadily = pods - outages * at_once
            creating = arena.creating_pods(steadily, steadily / (5 * outages), cpu="1m", **dra.from_template("one"))
            with driver.republishing(), creating:
                for outage in range(outages):
                    while kit.bound(cluster, arena.namespace) < steadily * (outage + 0.5) / outages:
                        driver.tainted = set(randomness.sample(names, 2))
                        time.sleep(0.3)
                    arena.pods(at_once, f"outage{outage}-", cpu="1m", **dra.from_template("one"))
                    interrupted += wait_until_writing(proxy)
                    cluster.api_server.kill()
                    time.sleep(10)
                    cluster.api_server.start()
                    cluster.api_server.wait_ready(cluster.client.ready, 60)
                    back = time.monotonic()
            wait_until(lambda: kit.bound(cluster, arena.namespace) == pods, 180, "all pods are bound")
            recovered = time.monotonic() - back
            verify(arena, pods)
            before = {raw["metadata"]["uid"] for raw in dra.claims(cluster, arena.namespace)}
            driver.tainted = {"gpu-0", "gpu-1"}
            driver.publish()
            arena.pods(4, "later", cpu="1m", **dra.from_template("one"))
            wait_until(lambda: kit.bound(cluster, arena.namespace) == pods + 4, 60, "pods get devices without taint")
            verify(arena, pods + 4)
            later = [raw for raw in dra.claims(cluster, arena.namespace) if raw["metadata"]["uid"] not in before]
            assert not driver.tainted & {result["device"] for raw in later for result in dra.results_of(raw)}
        assert not arena.ledger.moved
        arena.report(
            pods=pods,
            devices=nodes * 8,
            faults=f"API server gone {outages} times for 10 s, {interrupted} writes in flight, slices of generation {driver.generation}",
            seconds_from_last_return_to_all_bound=f"{recovered:.1f}",
        )
    assert interrupted


@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_while_slices_and_taints_change_and_the_api_server_is_gone(arena: Arena) -> None:
    disturb(arena, 60, 1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_in_five_outages_of_the_api_server(arena: Arena) -> None:
    disturb(arena, 1000, 5)


@pytest.mark.usefixtures("claims")
def test_a_pod_that_gets_another_claim_before_it_is_bound_is_bound_with_that_one(arena: Arena) -> None:
    """As when kube-controller-manager has made two, because it did not get the answer to the first creation."""
    cluster = arena.cluster
    arena.nodes(1)
    with dra.Driver(cluster, devices_of(1)), FaultProxy(cluster) as proxy:
        proxy.hold(is_write_to_claim)
        with arena.running(proxy, "--pod-intake=watch", warm_up=False):
            arena.pods(1, cpu="1m", **dra.from_template("one"))
            wait_until(lambda: proxy.held() == 1, 60, "Podwright writes the first claim")
            (first,) = dra.claims(cluster, arena.namespace)
            kept = {name: first["metadata"][name] for name in ("namespace", "annotations", "ownerReferences")}
            second = {key: first[key] for key in ("apiVersion", "kind", "spec")} | {
                "metadata": {"name": "second", **kept}
            }
            cluster.client.create(second)
            statuses = [{"name": "mine", "resourceClaimName": "second"}]
            cluster.client.patch(arena.pod("p0"), {"status": {"resourceClaimStatuses": statuses}}, "status")
            arena.pods(1, "later", cpu="1m", **dra.from_template("one"))
            wait_until(lambda: proxy.held() == 2, 60, "the watch of pods has shown what came before")
            proxy.release()
            wait_until(lambda: kit.bound(cluster, arena.namespace) == 2, 60, "all pods are bound")
            verify(arena, 2)
