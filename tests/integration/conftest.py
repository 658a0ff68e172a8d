"""The cluster of most tests of the operator's process: nothing in it but what an installation brings."""

from collections.abc import Iterator

import pytest

from podwright.testing import ControlPlane
from support.control_plane import operator_process


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the CRDs, the operator's account and its rights."""
    operator_process.install(control_plane)
    return control_plane


@pytest.fixture
def cluster(installed: ControlPlane, empty_cluster: ControlPlane) -> ControlPlane:
    """The same without nodes, workloads and policies."""
    return empty_cluster


@pytest.fixture(scope="module", autouse=True)
def _reused_operators() -> Iterator[None]:
    """Other modules start without operators."""
    yield
    operator_process.stop_reused()
