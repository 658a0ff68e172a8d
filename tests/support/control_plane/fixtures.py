"""Fixtures for tests on a real control plane, for every folder under `tests/`.

`control_plane` is one cluster for the whole run, `empty_cluster` the same without anybody's nodes and pods, `namespace`
a fresh namespace in it. A test that uses one of them is marked `control_plane`. What has to be built is built before the
first test, outside its time limit. Where neither the programs nor Go are to be had, these tests are skipped; in CI (`CI=true`) they fail.
"""

import os
import uuid
from collections.abc import Generator, Iterator

import pytest

from podwright.testing import ApiError, Binaries, BinariesMissingError, BuildError, Client, ControlPlane
from podwright.testing.versions import PROGRAMS

_BINARIES = pytest.StashKey[Binaries]()
_TROUBLE = pytest.StashKey[str]()
_LOGS = pytest.StashKey[list[str]]()
_NAMESPACED = (
    "/apis/apps/v1/{}/deployments", "/apis/apps/v1/{}/statefulsets", "/apis/apps/v1/{}/daemonsets",
    "/apis/apps/v1/{}/replicasets", "/apis/batch/v1/{}/jobs", "/apis/policy/v1/{}/poddisruptionbudgets",
    "/api/v1/{}/pods", "/api/v1/{}/persistentvolumeclaims", "/api/v1/{}/configmaps",
    "/apis/events.k8s.io/v1/{}/events",
)  # fmt: skip
_FIXTURES = {"binaries", "control_plane"}
_LACKING = "no control plane"
_FORCED = {"gracePeriodSeconds": "0"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the control plane, before `-m` selects."""
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.control_plane)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing, once the tests to run are known."""
    if session.config.option.collectonly or not any(item.get_closest_marker("control_plane") for item in session.items):
        return
    writer = session.config.get_terminal_writer()
    binaries = session.config.stash[_BINARIES] = Binaries(report=writer.line)
    try:
        binaries.require(PROGRAMS)
        for name in PROGRAMS:
            binaries.path(name)
    except (BinariesMissingError, BuildError) as error:
        session.config.stash[_TROUBLE] = str(error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all tests that lack the control plane one place, so that the summary folds them into one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and _LACKING in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for logs in config.stash.get(_LOGS, []):
        terminalreporter.write_line(f"the control plane's logs are kept in {logs}")


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The control plane's programs, all of them there; otherwise the test is skipped, or fails in CI."""
    trouble = request.config.stash.get(_TROUBLE, None)
    if trouble is None:
        return request.config.stash[_BINARIES]
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{_LACKING}: {trouble}", pytrace=False)
    pytest.skip(f"{_LACKING}: {trouble}")


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, binaries: Binaries) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, started once. What a test puts there it removes, or it uses `namespace`."""
    cluster = ControlPlane(binaries=binaries).start()
    yield cluster
    failed = request.session.testsfailed > 0
    if failed:
        request.config.stash.setdefault(_LOGS, []).append(str(cluster.logs))
    cluster.stop(keep_logs=failed)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a fresh namespace, removed with all that is in it."""
    client = control_plane.client
    name = f"test-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    client.create(body)
    yield name
    _empty(client, f"namespaces/{name}")
    client.delete(body)
    # Without a namespace controller nobody else would take the finalizer off.
    body["spec"] = {"finalizers": []}
    try:
        client.request("PUT", f"/api/v1/namespaces/{name}/finalize", body)
    except ApiError as error:
        if error.status != 404:
            raise


@pytest.fixture
def empty_cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without nodes, workloads and policies, before the test and after it."""
    empty(control_plane.client)
    yield control_plane
    empty(control_plane.client)


def empty(client: Client) -> None:
    """Remove everybody's nodes, workloads and policies."""
    for name in [item["metadata"]["name"] for item in client.items("/api/v1/namespaces")]:
        _empty(client, f"namespaces/{name}")
    client.request("DELETE", "/api/v1/nodes", query=_FORCED)
    status, _ = client.raw("DELETE", "/apis/podwright.dev/v1alpha1/schedulerpolicies", query=_FORCED)
    assert status in {200, 404}


def _empty(client: Client, scope: str) -> None:
    for path in _NAMESPACED:
        client.request("DELETE", path.format(scope), query=_FORCED)
