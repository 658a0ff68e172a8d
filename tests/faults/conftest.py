"""Gives fault tests a control plane that they may kill, and prints the figures of each test.

Tests marked slow run only with PODWRIGHT_FAULTS=all, which `make faults` sets.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from podwright.testing import Binaries, ControlPlane
from support import summary
from support.control_plane import operator_process as operator_kit
from support.faults.arena import Arena
from support.faults.ledger import Ledger

_FIGURES = "faults"
_OURS = pytest.StashKey[ControlPlane]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests unless `make faults` runs them."""
    here = Path(__file__).parent
    if os.environ.get("PODWRIGHT_FAULTS") == "all":
        return
    slow = {item for item in items if here in item.path.parents and item.get_closest_marker("slow")}
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=list(slow))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane of its own, since fault tests kill and pause it. It ends with the last of these tests."""
    with ControlPlane(binaries=binaries) as cluster:
        request.config.stash[_OURS] = cluster
        operator_kit.install(cluster)
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    yield
    here = Path(__file__).parent
    if nextitem is not None and here not in nextitem.path.parents and (cluster := item.config.stash.get(_OURS, None)):
        cluster.stop()


@pytest.fixture
def arena(request: pytest.FixtureRequest, control_plane: ControlPlane, namespace: str) -> Iterator[Arena]:
    """An empty cluster with one namespace, and a ledger that records from now on."""

    def add_figures(**figures: Any) -> None:
        line = f"{request.node.name}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in figures.items())
        summary.add(request.node, _FIGURES, line)

    with Ledger(control_plane) as ledger:
        yield Arena(control_plane, namespace, ledger, add_figures)
    for path in ("/api/v1/nodes", operator_kit.POLICIES):
        control_plane.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if lines := summary.collected(terminalreporter, _FIGURES):
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.write_line(line)
