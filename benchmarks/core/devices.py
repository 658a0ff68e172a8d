"""Measures decisions about pods with resource claims per second of CPU time, in process: filters, scores, allocation
and reservation.

Every node has devices that all differ in an attribute, as GPUs do by their uuid. The first decision reads all slices
and searches all nodes; its time is printed by itself. `--templates`: how many kinds of claims there are.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.core.decisions import node
from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World

Raw = dict[str, Any]
DRIVER: Final = "gpu.example.com"
MODELS: Final = ("a100", "h100")


def filled(nodes: int, devices: int) -> World:
    """A world in which each node has the given number of devices."""
    world = World(clock=time.time)
    world.fill({"nodes": [node(i) for i in range(nodes)], "deviceClasses": [_class()]})
    for i in range(nodes):
        world.cache.set_object("ResourceSlice", _slice(f"node-{i:05}", i, devices))
    return world


def _class() -> Raw:
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [_selector(f'device.driver == "{DRIVER}"')]}}


def _selector(expression: str) -> Raw:
    return {"cel": {"expression": expression}}


def _slice(node_name: str, number: int, devices: int) -> Raw:
    listed = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": MODELS[(i + number) % 2]},
                "uuid": {"string": f"{number}-{i}"},
                "numa": {"int": i % 2},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(devices)
    ]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": listed},
    }


def claim(name: str, template: int) -> Raw:
    """A claim of one of the templates: one or two devices of a model, two of them on the same NUMA node."""
    count, model = 1 + template % 2, MODELS[template // 2 % 2]
    selectors = [_selector(f'device.attributes["{DRIVER}"].model == "{model}"')]
    if template > 3:
        selectors.append(_selector(f"{template} > 3"))
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    devices: Raw = {"requests": [{"name": "r", "exactly": asked}]}
    if count > 1:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}


def pod(name: str) -> PodInfo:
    """A pod with the claim of its own name."""
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    spec: Mapping[str, Any] = {"schedulerName": "podwright", "containers": [container], "resourceClaims": claims}
    return parse_pod(
        {"metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"}, "spec": spec}, keep_raw=True
    )


def measure(world: World, pods: int, templates: int) -> tuple[float, float]:
    """CPU seconds of the first decision of each template together, and decisions per CPU second of the others."""
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    below, first, rest = random.Random(7).randrange, 0.0, 0.0
    for number in range(pods):
        world.cache.set_object("ResourceClaim", claim(f"p{number}", number % templates))
        pending = pod(f"p{number}")
        started = time.process_time()
        decision = schedule(framework, world.cache, pending, below)
        if not isinstance(decision, Placement):
            raise TypeError(f"{pending.key} was not placed: {decision}")
        world.cache.assume(pending, decision.node_name)
        status = framework.reserve(decision.state, pending, decision.node_name)
        if status is not None:
            raise TypeError(f"{pending.key} was not reserved: {status}")
        spent = time.process_time() - started
        if number < templates:
            first += spent
        else:
            rest += spent
    return first, (pods - templates) / rest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[500, 5000])
    parser.add_argument("--devices", type=int, default=20, help="on each node")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--templates", type=int, nargs="*", default=[1, 8])
    given = parser.parse_args()
    for nodes in given.nodes:
        for templates in given.templates:
            first, rate = measure(filled(nodes, given.devices), given.pods, templates)
            what = f"{nodes * given.devices} devices on {nodes} nodes, {templates} templates"
            print(f"{what:48} {rate:8.0f} decisions/s, the first of each template {first:6.2f} s in all", flush=True)


if __name__ == "__main__":
    main()
