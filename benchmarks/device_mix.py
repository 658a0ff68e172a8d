"""How many pods of a generated inference mix fit, by the policy's choice of devices: `python -m benchmarks.device_mix`.

The cluster has whole GPUs of 40 and 80 GB, boards that can be divided as MIG does, and GPUs of which pods get shares.
The pods are such that all of them would fit if one knew them beforehand: each device is divided among pods at random.
They come in random order, and a pod that does not fit at its turn is left out. `--leave`: running pods also end at
random, and others come instead of them. The same pods come under each policy.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podwright.api.compile import compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World

Raw = dict[str, Any]
DRIVER: Final = "gpu.example.com"
POLICIES: Final[Mapping[str, Raw]] = {
    "as kube-scheduler": {},
    "allocation BestFit": {"allocation": "BestFit"},
    "scoring MostAllocated": {"scoring": "MostAllocated", "weight": 20},
    "scoring BestFit": {"scoring": "BestFit", "weight": 20},
    "allocation and scoring BestFit": {"allocation": "BestFit", "scoring": "BestFit", "weight": 20},
    "Spread and LeastAllocated": {"allocation": "Spread", "scoring": "LeastAllocated", "weight": 20},
}
"""`spec.devices`."""


# The cluster


def cluster(size: int) -> Iterator[tuple[str, Raw]]:
    """Objects by kind: `size` nodes of each of the four kinds."""
    for name in ("whole", "part", "share"):
        yield "DeviceClass", _class(name)
    kinds = (_forty, _eighty, _boards, _shared)
    for number in range(size * len(kinds)):
        name = f"node-{number:03}"
        yield "Node", _node(name)
        for i, spec in enumerate(kinds[number % len(kinds)](name)):
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + (number % len(kinds) == 2)}
            own = {"driver": DRIVER, "pool": pool, "nodeName": name, **spec}
            yield "ResourceSlice", {"metadata": {"name": f"{name}-{i}"}, "spec": own}


def _node(name: str) -> Raw:
    allocatable = {"cpu": "128", "memory": "1024Gi", "pods": "250"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": allocatable},
    }


def _class(name: str) -> Raw:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{name}"'
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _device(name: str, kind: str, model: str, memory: int, **fields: Any) -> Raw:
    attributes = {"type": {"string": kind}, "model": {"string": model}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": f"{memory}Gi"}}, **fields}


def _forty(_name: str) -> list[Raw]:
    return [{"devices": [_device(f"gpu-{i}", "whole", "a100-40", 40) for i in range(8)]}]


def _eighty(_name: str) -> list[Raw]:
    return [{"devices": [_device(f"gpu-{i}", "whole", "h100", 80) for i in range(8)]}]


def _shared(_name: str) -> list[Raw]:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    devices = []
    for i in range(4):
        device = _device(f"gpu-{i}", "share", "l40s", 48, allowMultipleAllocations=True)
        device["capacity"]["memory"]["requestPolicy"] = policy
        devices.append(device)
    return [{"devices": devices}]


def _boards(_name: str) -> list[Raw]:
    """Four boards: each whole, in halves, in quarters and in eighths, by counters."""
    devices, counters = [], []
    for board in range(4):
        counters.append(
            {"name": f"board-{board}", "counters": {"memory": {"value": "80Gi"}, "engines": {"value": "8"}}}
        )
        for kind, memory, count in (("whole", 80, 1), ("part", 40, 2), ("part", 20, 4), ("part", 10, 8)):
            for i in range(count):
                taken = {"memory": {"value": f"{memory}Gi"}, "engines": {"value": str(memory // 10)}}
                consumes = [{"counterSet": f"board-{board}", "counters": taken}]
                devices.append(_device(f"b{board}-{memory}-{i}", kind, "h100", memory, consumesCounters=consumes))
    return [{"devices": devices}, {"sharedCounters": counters}]


# The pods


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pod, and what it asks for."""

    device_class: str
    memory: int
    """GiB: at least so much on each device, or the share."""
    count: int = 1

    @property
    def name(self) -> str:
        what = "" if self.device_class == "whole" else f"{self.device_class} of "
        return f"{what}{f'{self.count} x ' if self.count > 1 else ''}{self.memory} GB"


_OF_40: Final = (((1,) * 8, 3), ((4, 1, 1, 1, 1), 2), ((4, 4), 1))
_OF_80: Final = (((1,) * 8, 2), ((2, 2, 1, 1, 1, 1), 2), ((8,), 1))
_OF_BOARD: Final = (
    ((80,), 2),
    ((40, 40), 1),
    ((40, 20, 20), 1),
    ((40, 20, 10, 10), 2),
    ((20, 20, 20, 10, 10), 1),
    ((10,) * 8, 1),
)
_OF_SHARED: Final = (((30, 16), 2), ((30, 6, 6, 6), 2), ((16, 16, 16), 2), ((16, 16, 6, 6), 1), ((6,) * 8, 1))
"""How a node of eight GPUs, a board or a shared GPU may be divided, and how often: numbers of GPUs, or GiB."""


def inference_mix(size: int, chance: random.Random) -> list[Kind]:
    """Pods that fill the cluster."""

    def divided(ways: Sequence[tuple[Sequence[int], int]], times: int) -> Iterator[int]:
        for way in chance.choices([way for way, _ in ways], [weight for _, weight in ways], k=times):
            yield from way

    found = [Kind("whole", 40, count) for count in divided(_OF_40, size)]
    found += [Kind("whole", 80, count) for count in divided(_OF_80, size)]
    found += [Kind("whole" if memory == 80 else "part", memory) for memory in divided(_OF_BOARD, 4 * size)]
    found += [Kind("share", memory) for memory in divided(_OF_SHARED, 4 * size)]
    chance.shuffle(found)
    return found


def _claim(name: str, kind: Kind) -> Raw:
    ask: Raw = {"deviceClassName": kind.device_class, "allocationMode": "ExactCount", "count": kind.count}
    if kind.device_class == "share":
        ask["capacity"] = {"requests": {"memory": f"{kind.memory}Gi"}}
    else:
        at_least = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{kind.memory}Gi")) >= 0'
        ask["selectors"] = [{"cel": {"expression": at_least}}]
    devices: Raw = {"requests": [{"name": "r", "exactly": ask}]}
    if kind.count > 1:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/model"}]
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}


def _pod(name: str) -> PodInfo:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    spec = {"schedulerName": "podwright", "containers": [container], "resourceClaims": claims}
    return parse_pod(
        {"metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"}, "spec": spec}, keep_raw=True
    )


class Run:
    """Pods of the mix, one after the other, under one policy."""

    def __init__(self, devices: Raw, size: int) -> None:
        self._world = World(clock=time.time)
        objects = list(cluster(size))
        self._world.fill({"nodes": [raw for kind, raw in objects if kind == "Node"]})
        for kind, raw in objects:
            if kind != "Node":
                self._world.cache.set_object(kind, raw)
        policy = parse_policy({"metadata": {"name": "mix"}, "spec": {"devices": devices}})
        compiled = compile_policy(policy, PLUGINS, self._world.features)
        self._framework = Framework(compiled.profile, PLUGINS, self._world)
        self._below = random.Random(7).randrange
        self._placed: dict[str, tuple[Placement, PodInfo]] = {}

    def place(self, name: str, kind: Kind) -> bool:
        """Places the pod. False if it does not fit."""
        cache, pending = self._world.cache, _pod(name)
        cache.set_object("ResourceClaim", _claim(name, kind))
        decision = schedule(self._framework, cache, pending, self._below)
        if not isinstance(decision, Placement):
            cache.remove_object("ResourceClaim", name, "default")
            return False
        cache.assume(pending, decision.node_name)
        status = self._framework.reserve(decision.state, pending, decision.node_name)
        if status is not None:
            raise TypeError(f"{pending.key} was not reserved: {status}")
        self._placed[name] = decision, pending
        return True

    def leave(self, name: str) -> None:
        """The pod has ended, and its claim is gone."""
        decision, pod = self._placed.pop(name)
        self._framework.unreserve(decision.state, pod, decision.node_name)
        self._world.cache.forget(pod.uid)
        self._world.cache.remove_object("ResourceClaim", name, "default")


def filled(devices: Raw, size: int, seed: int) -> Counter[Kind]:
    """The pods that fit into an empty cluster, by kind."""
    run = Run(devices, size)
    kinds = inference_mix(size, random.Random(seed))
    return Counter(kind for number, kind in enumerate(kinds) if run.place(f"p{number}", kind))


def replaced(devices: Raw, size: int, seed: int, times: int) -> Counter[Kind]:
    """The pods that run, by kind, after running ones have ended at random so often, and the first of those that were
    left out have come instead.

    The mix stays the same: what has ended comes back, at the end.
    """
    chance, run = random.Random(seed), Run(devices, size)
    waiting = list(enumerate(inference_mix(size, chance)))
    running: list[tuple[int, Kind]] = []
    number = len(waiting)
    for _ in range(times):
        left = []
        for pod in waiting:
            (running if run.place(f"p{pod[0]}", pod[1]) else left).append(pod)
        waiting = left
        for _ in range(len(running) // 10):
            ended, kind = running.pop(chance.randrange(len(running)))
            run.leave(f"p{ended}")
            waiting.append((number, kind))
            number += 1
        chance.shuffle(waiting)
    return Counter(kind for _, kind in running) + Counter(kind for pod, kind in waiting if run.place(f"p{pod}", kind))


def _table(results: Mapping[str, Counter[Kind]], seeds: int) -> Iterator[str]:
    kinds = sorted(
        {kind for fits in results.values() for kind in fits},
        key=lambda kind: (kind.device_class, kind.memory, kind.count),
    )
    yield f"{'':32}{'pods':>8}{'':>8}{'GPU GB':>8}" + "".join(f"{kind.name:>15}" for kind in kinds)
    first = next(iter(results.values())).total()
    for policy, fits in results.items():
        more = f"{100 * (fits.total() / first - 1):+.1f} %"
        memory = sum(kind.memory * kind.count * number for kind, number in fits.items())
        cells = "".join(f"{fits[kind] / seeds:15.1f}" for kind in kinds)
        yield f"{policy:32}{fits.total() / seeds:8.1f}{more:>8}{memory / seeds:8.0f}{cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10, help="nodes of each of the four kinds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--leave", type=int, default=0, help="how often a tenth of the pods ends")
    given = parser.parse_args()
    results: dict[str, Counter[Kind]] = {}
    for policy, devices in POLICIES.items():
        results[policy] = Counter()
        for seed in range(given.seeds):
            if given.leave:
                results[policy] += replaced(devices, given.size, seed, given.leave)
            else:
                results[policy] += filled(devices, given.size, seed)
    all_pods = Counter[Kind]()
    for seed in range(given.seeds):
        all_pods += Counter(inference_mix(given.size, random.Random(seed)))
    print(f"{4 * given.size} nodes; mean of {given.seeds} seeds")
    print("\n".join(_table({**results, "all pods": all_pods}, given.seeds)))


if __name__ == "__main__":
    main()
