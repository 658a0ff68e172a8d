"""The cluster of most tests of the operator's process: nothing in it but what an installation brings."""

from collections.abc import Iterator

import pytest

from podwright.testing import Binaries, ControlPlane, wait_until
from support.control_plane import operator_process
from support.gangs.pod_groups import SERVING_ALL
from support.kueue import stand_in


@pytest.fixture(scope="session")
def serving_groups(binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane that serves Kubernetes' own pod groups, with Podwright and without the kinds of other groups. The
    files that use it come one after the other (see `tests/conftest.py`), and leave no kinds and controllers behind.
    """
    with ControlPlane(binaries=binaries, **SERVING_ALL) as cluster:
        operator_process.install(cluster)
        for name, value, policy in (("meek", 0, "Never"), ("eager", 1000, "PreemptLowerPriority")):
            cluster.client.add_priority_class(name, value, policy)
        yield cluster


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the CRDs, the operator's account and its rights."""
    operator_process.stay_installed(control_plane)
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


@pytest.fixture(scope="module")
def kueue_installed(installed: ControlPlane) -> ControlPlane:
    """The control plane with Kueue's CRDs, and the account and rights of the admission check."""
    operator_process.wait_listed(installed, "reservations")
    stand_in.install(installed)
    return installed


@pytest.fixture
def kueue(kueue_installed: ControlPlane, empty_cluster: ControlPlane, namespace: str) -> Iterator[stand_in.Kueue]:
    """Kueue in a new namespace of the cluster without nodes. Its Workloads and all Reservations are deleted."""
    gone = lambda: stand_in.reservations(empty_cluster) == []
    wait_until(gone, 30, "nothing is held: the check may write a place again until it knows of the deletion")
    yield stand_in.Kueue(empty_cluster, namespace)
    empty_cluster.client.request("DELETE", f"{stand_in.API}/namespaces/{namespace}/workloads")
    empty_cluster.client.request("DELETE", stand_in.RESERVATIONS)
