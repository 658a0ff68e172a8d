"""Takes the pictures of the page for docs/page.md and the README: `make screenshots`.

They show a real operator beside a sandbox, so names, times and places differ a little each time.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

from podwright.testing import node, pod, wait_until
from support.page import chromium
from support.page.stage import RACK, ZONE, Stage, simulated, staged

SIZES = {"desktop": (1440, 900), "tablet": (820, 1180), "phone": (390, 844)}
COLOURS = 256
GPU = "nvidia.com/gpu"
NODES = 180


def main(folder: Path) -> None:
    """Takes all pictures."""
    chance = random.Random(7)
    machines = [*_nodes()]
    with tempfile.TemporaryDirectory() as work, chromium.launched(chromium.find()) as browser:
        with staged(Path(work), machines) as stage:
            _fill(stage, chance)
            for size in SIZES:
                for scheme in ("light", "dark"):
                    _take(browser, stage.url, folder / f"{size}-{scheme}.png", size, scheme)
        items = [*machines, *_residents(chance, machines), *(_train(number, "ml") for number in range(9))]
        with simulated(Path(work), items) as url:
            _take(browser, url, folder / "simulation-light.png", "desktop", "light", simulation=True)


def _nodes() -> Iterator[dict[str, Any]]:
    for number in range(NODES):
        zone, rack = "abc"[number * 3 // NODES], number % 6 + 1
        large = rack == 6
        labels = {ZONE: f"eu-west-1{zone}", RACK: f"{zone}{rack}"}
        raw = node(
            f"node-{number + 1}", cpu="32" if large else "16", memory="128Gi" if large else "64Gi", labels=labels
        )
        if large:
            raw["status"]["allocatable"][GPU] = raw["status"]["capacity"][GPU] = "8"
        if number in (31, 96):
            raw["spec"]["unschedulable"] = True
        if number == 140:
            raw["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            raw["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        yield raw


def _fill(stage: Stage, chance: random.Random) -> None:
    stage.create(*_policies())
    for number in range(1100):
        stage.create(_web(number, chance) if number % 3 else _batch(number, chance))
    for number in range(4):
        stage.create(_train(number, "default"))
    stage.create(_web(7000, chance, schedulingGates=[{"name": "example.com/quota"}]))
    wait_until(lambda: stage.operator.metric("scheduler_cache_size", type="pods") >= 1000, 120, "pods have nodes")
    for number in range(12):
        stage.create(_web(8000 + number, chance))


def _policies() -> Iterator[dict[str, Any]]:
    """The last one names a plugin that does not exist."""
    unknown = {"score": {"enabled": [{"name": "GpuSaver", "weight": 5}]}}
    for name, precedence, spec in (
        ("batch-pack", 10, {"strategy": {"type": "MostAllocated"}}),
        ("web-spread", 5, {"strategy": {"type": "LeastAllocated"}}),
        ("gpu-save", 20, {"strategy": {"type": "Custom"}, "plugins": unknown}),
    ):
        yield {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": name},
            "spec": {
                "match": {"podSelector": {"matchLabels": {"team": name.partition("-")[0]}}},
                "precedence": precedence,
                **spec,
            },
        }


def _web(number: int, chance: random.Random, **spec: Any) -> dict[str, Any]:
    name = f"{chance.choice(['web', 'api', 'cart', 'search'])}-{number}"
    return pod(
        name,
        scheduler="podwright",
        cpu=chance.choice(["250m", "500m", "1", "2"]),
        memory=chance.choice(["1Gi", "2Gi", "6Gi"]),
        labels={"team": "web"},
        **spec,
    )


def _batch(number: int, chance: random.Random) -> dict[str, Any]:
    cpu, memory = chance.choice([("1", "2Gi"), ("2", "4Gi"), ("3", "12Gi")])
    return pod(f"batch-{number}", scheduler="podwright", cpu=cpu, memory=memory, labels={"team": "batch"})


def _train(number: int, namespace: str) -> dict[str, Any]:
    raw = pod(f"train-{number}", namespace, scheduler="podwright", cpu="30", memory="90Gi")
    raw["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "30", "memory": "90Gi", GPU: "16"},
        "limits": {GPU: "16"},
    }
    if namespace == "ml":
        raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "20", "memory": "60Gi"}}
    return raw


def _residents(chance: random.Random, machines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, machine in enumerate(machines):
        for each in range(chance.randint(1, 7)):
            yield pod(
                f"web-{number}-{each}",
                scheduler="podwright",
                cpu="2",
                memory="7Gi",
                nodeName=machine["metadata"]["name"],
            )


def _take(browser: Browser, url: str, target: Path, size: str, scheme: str, *, simulation: bool = False) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#map[data-nodes]:not([data-nodes='0'])")
    page.locator("#policies").get_by_role("button", name="built-in-default").wait_for()
    if simulation:
        _simulate(page)
    page.wait_for_timeout(500)
    _write(page.screenshot(full_page=size == "tablet"), target)
    context.close()


def _simulate(page: Page) -> None:
    page.get_by_label("Add nodes").fill("6")
    page.get_by_label("like", exact=True).fill("node-6")
    page.get_by_label("Drain").fill("node-1, node-2, node-3")
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("slider").wait_for()


def _write(picture: bytes, target: Path) -> None:
    """Fewer colours make the file a third as long."""
    target.parent.mkdir(parents=True, exist_ok=True)
    image = (
        Image.open(io.BytesIO(picture))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    image.save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
