"""A control plane of its own for tests that kill it, a ledger of what really happened, and the figures of each test.

The tests marked slow run with PODWRIGHT_FAULTS=all only, which `make faults` sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podwright.testing import Binaries, ControlPlane
from support.control_plane import operator_process as operator_kit
from support.faults import kit as fault_kit
from support.faults import ledger as fault_ledger

_FIGURES = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long ones to `make faults`."""
    here = Path(__file__).parent
    if os.environ.get("PODWRIGHT_FAULTS") == "all":
        return
    long = {item for item in items if here in item.path.parents and item.get_closest_marker("slow")}
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=list(long))


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """Not the one that other tests use: here it is killed and paused."""
    with ControlPlane(binaries=binaries) as cluster:
        operator_kit.install(cluster)
        yield cluster


@pytest.fixture
def arena(request: pytest.FixtureRequest, control_plane: ControlPlane, namespace: str) -> Iterator[fault_kit.Arena]:
    """An empty cluster with one namespace, and a ledger kept from here on."""
    lines = request.config.stash.setdefault(_FIGURES, [])

    def tell(**figures: Any) -> None:
        lines.append(f"{request.node.name}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in figures.items()))

    with fault_ledger.written(control_plane) as ledger:
        yield fault_kit.Arena(control_plane, namespace, ledger, tell)
    for path in ("/api/v1/nodes", operator_kit.POLICIES):
        control_plane.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if lines := config.stash.get(_FIGURES, []):
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.write_line(line)
