"""Two hosts of docs/two-hosts.md, on one machine: every command of the documents, and what they say about it.

The hosts have folders and loopback addresses of their own. Their Leases are shorter than by default, so that takeovers
take seconds.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.hosts.host import CHECKOUT, Host, commands, scheduler_port

SUPERVISOR, SYSTEMD, HOSTS = "contrib/supervisor/README.md", "contrib/systemd/README.md", "docs/two-hosts.md"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
SHORT = "--leader-elect=true --leader-elect-lease-duration=10s --leader-elect-renew-deadline=8s --leader-elect-retry-period=500ms"
CHANGES = {"--leader-elect=true": SHORT, "stdout_logfile_maxbytes=64MB": "stdout_logfile_maxbytes=1KB"}


@pytest.fixture
def cluster(empty_cluster: ControlPlane) -> Iterator[ControlPlane]:
    yield empty_cluster
    empty_cluster.client.request("DELETE", LEASE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: that of supervisor's socket in it can have 107 characters."""
    with TemporaryDirectory(prefix="podwright-") as path:
        yield Path(path)


@pytest.fixture
def pair(cluster: ControlPlane, folder: Path) -> Iterator[list[Host]]:
    """Two hosts whose supervisors run, on which nothing is installed."""
    with scheduler_port():
        hosts = [Host(cluster, folder, number, CHANGES) for number in (1, 2)]
        supervisors = [host.start_supervisor() for host in hosts]
        yield hosts
        for supervisor in supervisors:
            supervisor.stop(40)


def holder(cluster: ControlPlane) -> str:
    return str(cluster.client.get(LEASE)["spec"].get("holderIdentity") or "")


def leader(cluster: ControlPlane, hosts: list[Host]) -> Host:
    """The host whose Podwright holds the Lease."""

    def found() -> list[Host]:
        name = holder(cluster)
        return [host for host in hosts if name and host.says(f" as {name}")]

    wait_until(found, 30, "one of the hosts holds the Lease")
    return found()[0]


def test_a_pair_of_hosts_under_supervisor_does_what_the_documents_say(
    cluster: ControlPlane, namespace: str, pair: list[Host]
) -> None:
    def bind(name: str) -> str:
        """Creates a pod, waits until it is bound, and returns the instance that has decided."""
        cluster.client.create(pod(name, namespace, scheduler="default-scheduler"))
        wait_until(lambda: cluster.client.read(pod(name, namespace))["spec"].get("nodeName"), 30, f"{name} is bound")
        return str(kit.decision(cluster.client.read(pod(name, namespace)))["instance"])

    cluster.client.create(node("n1"))
    done = [
        *commands(HOSTS, "See who decides"),
        *commands(HOSTS, "Try a takeover"),
        *commands(HOSTS, "Change the kubeconfig"),
    ]
    first = [command for command in commands(HOSTS) if command not in done]
    assert [pair[0].run(command) for command in first] != []
    for host in pair:
        *_, status = [host.run(command) for command in commands(SUPERVISOR)]
        assert re.search(r"podwright +(STARTING|RUNNING)", status)
    for host in pair:
        wait_until(lambda host=host: host.ready, 60, f"{host.address} is ready")
    assert bind("p0") == holder(cluster)
    leading = leader(cluster, pair)
    (other,) = (host for host in pair if host is not leading)

    healthy = lambda: re.search(r"^scheduler +Healthy +ok *$", leading.run(component), re.MULTILINE)
    lease, component, status, tail = commands(HOSTS, "See who decides")
    wait_until(healthy, 30, "the API server calls the scheduler healthy")
    assert holder(cluster) in leading.run(lease)
    wait_until(lambda: "RUNNING" in leading.run(status), 30, "supervisor says that it runs")
    wait_until(lambda: leading.says("this instance decides now"), 30, "the log says that it decides")
    shown = leading.run(tail).splitlines()
    assert shown
    wait_until(lambda: all(leading.says(line) for line in shown[1:]), 30, "these are the last lines of the log")

    kill, stop, start = commands(HOSTS, "Try a takeover")
    killed = holder(cluster)
    leading.run(kill)
    wait_until(lambda: holder(cluster) != killed, 30, "the other host takes the Lease")
    assert leader(cluster, pair) is other
    assert bind("p1") == holder(cluster)
    wait_until(lambda: leading.ready, 30, "supervisor has started the killed process again")
    assert leader(cluster, pair) is other

    (change,) = commands(HOSTS, "Change the kubeconfig")
    other.run(change)
    stopped = holder(cluster)
    assert "podwright: stopped" in other.run(stop)
    wait_until(
        lambda: other.says("released lease kube-system/kube-scheduler"), 30, "the log says that it gave up the Lease"
    )
    assert bind("p2") == holder(cluster) != stopped
    assert leader(cluster, pair) is leading
    assert "exit status 0" in (other.root / "var/log/supervisor/supervisord.log").read_text()
    assert "podwright: started" in other.run(start)
    wait_until(lambda: other.ready, 60, "it stands by")
    check_rotation(other)


def check_rotation(host: Host) -> None:
    """supervisor has begun new files, at most four, and dropped no line between them."""
    files = sorted(host.log.parent.iterdir(), reverse=True)
    assert 2 <= len(files) <= 5
    text = "".join(path.read_text() for path in files)
    assert all(re.match(r"[IWE]\d{4} ", line) for line in text.splitlines())
    assert {path.stat().st_size > 2048 for path in files} == {False}


def test_the_unit_of_systemd_is_valid_hardened_and_starts_the_same_program(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """No systemd runs here: what it would start, supervisor starts in the other test."""
    if shutil.which("systemd-analyze") is None:
        skip_or_fail = pytest.fail if os.environ.get("CI", "").lower() in {"true", "1"} else pytest.skip
        skip_or_fail("no systemd-analyze")
    host = Host(control_plane, tmp_path, 1, CHANGES)
    for command in commands(SYSTEMD):
        assert host.run(command) == ""
    assert (host.root / "etc/systemd/system/multi-user.target.wants/podwright.service").is_symlink()
    path = CHECKOUT / "contrib/systemd/podwright.service"
    assert "podwright.service" in host.run(f"systemd-analyze security --offline=yes --threshold=15 {path}")
    unit = configparser.RawConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.read(path)
    program = configparser.RawConfigParser(inline_comment_prefixes=None)
    program.read(CHECKOUT / "contrib/supervisor/podwright.conf")
    service, other = unit["Service"], program["program:podwright"]
    assert shlex.split(service["ExecStart"]) == shlex.split(other["command"])
    assert service["Environment"].split() == other["environment"].replace('"', "").split(",")
    assert service["TimeoutStopSec"] == other["stopwaitsecs"]
