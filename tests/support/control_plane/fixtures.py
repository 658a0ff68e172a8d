"""Fixtures for tests on a real control plane, for every folder under `tests/`.

`control_plane` is one cluster for the whole run, `empty_cluster` the same cluster without nodes, workloads and
policies, `namespace` a new namespace in it. Tests that use one of them are marked `control_plane`. Missing programs are
built before the first test, outside its time limit. Without the programs and without Go, these tests are skipped; in CI
(`CI=true`) they fail.

`KUBERNETES_VERSION` chooses the version of the cluster. A test marked `kubernetes(36, "what it needs")` is skipped
before 1.36.
"""

import os
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from podwright.testing import (
    AnswerError,
    Binaries,
    BinariesMissingError,
    BuildError,
    Client,
    ControlPlane,
    VersionError,
    Versions,
)
from podwright.testing.versions import PROGRAMS
from support import summary
from support.serve.certificates import Authority

_BINARIES = pytest.StashKey[Binaries]()
_BUILD_ERROR = pytest.StashKey[str]()
_LOGS = "the control plane's logs are kept in"
_KEPT = pytest.StashKey[list[str]]()
_SHARED = pytest.StashKey[ControlPlane]()
_NAMESPACED = (
    "/apis/apps/v1/{}/deployments", "/apis/apps/v1/{}/statefulsets", "/apis/apps/v1/{}/daemonsets",
    "/apis/apps/v1/{}/replicasets", "/apis/batch/v1/{}/jobs", "/apis/policy/v1/{}/poddisruptionbudgets",
    "/api/v1/{}/pods", "/api/v1/{}/persistentvolumeclaims", "/api/v1/{}/configmaps",
    "/apis/events.k8s.io/v1/{}/events",
)  # fmt: skip
_FIXTURES = {"binaries", "control_plane"}
_UNAVAILABLE = "no control plane"
_FORCED = {"gracePeriodSeconds": "0"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the control plane, before `-m` selects. Skip those that need a newer one."""
    versions = _versions()
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.control_plane)
        if (needed := item.get_closest_marker("kubernetes")) and versions.kubernetes_minor < needed.args[0]:
            item.add_marker(pytest.mark.skip(f"Kubernetes {versions.kubernetes} does not have {needed.args[1]}"))


def pytest_report_header() -> str:
    """Name the version of the control plane."""
    return f"control plane: Kubernetes {_versions().kubernetes}"


def _versions() -> Versions:
    try:
        return Versions.from_environ()
    except VersionError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build missing programs, once the selected tests are known."""
    if session.config.option.collectonly or not any(item.get_closest_marker("control_plane") for item in session.items):
        return
    binaries = session.config.stash[_BINARIES] = Binaries()
    capture = session.config.pluginmanager.getplugin("capturemanager")
    try:
        binaries.require(PROGRAMS)
        with capture.global_and_fixture_disabled():
            for name in PROGRAMS:
                binaries.path(name)
    except (BinariesMissingError, BuildError) as error:
        session.config.stash[_BUILD_ERROR] = str(error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report one location for all tests skipped without a control plane, so that the summary shows them on one line."""
    for folder in item.config.stash.get(_KEPT, []):
        summary.add(item, _LOGS, folder)
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and _UNAVAILABLE in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Kill what a file has left running on the shared control plane, for example after a failure, because it would
    disturb the next file.
    """
    yield
    if (cluster := item.config.stash.get(_SHARED, None)) and (nextitem is None or nextitem.path != item.path):
        cluster.kill_components()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for folder in summary.collected(terminalreporter, _LOGS):
        terminalreporter.write_line(f"{_LOGS} {folder}")


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The control plane's programs. If one is missing, skips the test, or fails it in CI."""
    build_error = request.config.stash.get(_BUILD_ERROR, None)
    if build_error is None:
        return request.config.stash[_BINARIES]
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{_UNAVAILABLE}: {build_error}", pytrace=False)
    pytest.skip(f"{_UNAVAILABLE}: {build_error}")


@dataclass(frozen=True)
class Authorities:
    """Who issues client certificates of users, and those of front proxies."""

    clients: Authority = field(default_factory=lambda: Authority("kubernetes"))
    front_proxies: Authority = field(default_factory=lambda: Authority("front-proxy-ca"))

    def flags(self, folder: Path) -> list[str]:
        """The flags of an API server that trusts both."""
        files = folder / "clients.crt", folder / "front-proxies.crt"
        for file, authority in zip(files, (self.clients, self.front_proxies), strict=True):
            file.write_text(authority.certificate)
        return [
            f"--client-ca-file={files[0]}",
            f"--requestheader-client-ca-file={files[1]}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
        ]


@pytest.fixture(scope="session")
def authorities() -> Authorities:
    """Those that the control plane trusts, as kubeadm sets it up."""
    return Authorities()


@pytest.fixture(scope="session")
def control_plane(
    request: pytest.FixtureRequest,
    binaries: Binaries,
    authorities: Authorities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, started once. Tests remove their objects, or create them in `namespace`."""
    flags = authorities.flags(tmp_path_factory.mktemp("authorities"))
    cluster = request.config.stash[_SHARED] = ControlPlane(binaries=binaries, api_server_flags=flags).start()
    yield cluster
    failed = request.session.testsfailed > 0
    if failed:
        request.config.stash.setdefault(_KEPT, []).append(str(cluster.logs))
    cluster.stop(keep_logs=failed)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace. It is deleted with its contents."""
    client = control_plane.client
    name = f"test-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    client.create(body)
    yield name
    _empty(client, f"namespaces/{name}")
    client.delete(body)
    # There is no namespace controller to remove the finalizer.
    body["spec"] = {"finalizers": []}
    try:
        client.request("PUT", f"/api/v1/namespaces/{name}/finalize", body)
    except AnswerError as error:
        if error.status != 404:
            raise


@pytest.fixture
def empty_cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without nodes, workloads, policies and queues, before the test and after it."""
    empty(control_plane.client)
    yield control_plane
    empty(control_plane.client)


def empty(client: Client, *, policies: bool = True) -> None:
    """Delete all nodes and workloads, and policies and queues unless those stay. Namespaces in which there is nothing
    cost no requests.
    """
    for path in _NAMESPACED:
        for name in {item["metadata"]["namespace"] for item in client.items(path.replace("/{}", ""))}:
            client.request("DELETE", path.format(f"namespaces/{name}"), query=_FORCED)
    client.request("DELETE", "/api/v1/nodes", query=_FORCED)
    for plural in ("schedulerpolicies", "schedulingqueues") if policies else ():
        status, _ = client.raw("DELETE", f"/apis/podwright.dev/v1alpha1/{plural}", query=_FORCED)
        assert status in {200, 404}


def _empty(client: Client, scope: str) -> None:
    for path in _NAMESPACED:
        client.request("DELETE", path.format(scope), query=_FORCED)
