"""The schedulers under test: what runs beside the measured one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks import schedulers
from benchmarks.schedulers import Installed, podwright, with_standby


class FakeCluster:
    """Records what is created and started."""

    def __init__(self) -> None:
        self.kubeconfig = Path("/admin")
        self.created: list[dict] = []
        self.started: list[tuple[str, list[str]]] = []
        self.client = SimpleNamespace(create=self.created.append)

    def service_account_kubeconfig(self, _namespace, _name):
        return Path("/account")

    def start_process(self, name, command, _environ):
        self.started.append((name, [str(part) for part in command]))
        return SimpleNamespace(wait_ready=lambda condition, _seconds: condition())


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(schedulers, "is_ready", lambda _port: True)
    return FakeCluster()


INSTALLED = Installed(("system", "podwright"), ("--leader-elect", "--secure-port=10259"), {})


def test_a_standby_never_leads_and_has_a_port_of_its_own(cluster):
    series = with_standby(podwright(), "podwright_standby")
    series.prepare(cluster, INSTALLED)
    series.start(cluster, INSTALLED)
    (standby, command), (leader, leading) = cluster.started
    assert (standby, leader) == ("standby", "podwright")
    (lease,) = cluster.created
    assert lease["spec"]["holderIdentity"]
    assert f"--leader-elect-resource-name={lease['metadata']['name']}" in command
    assert not any("resource-name" in argument for argument in leading)
    assert len({part for part in (*command, *leading) if part.startswith("--health-address")}) == 2


def test_others_prepare_nothing():
    assert podwright().prepare is None
