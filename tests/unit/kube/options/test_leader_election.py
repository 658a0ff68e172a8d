"""The options of leader election: flags, the configuration file, and the Lease's namespace."""

import pytest
from click.testing import CliRunner

from podwright.api.configuration.schema import LeaderElection
from podwright.cli.main import main
from podwright.kube.options.options import SYSTEM_NAMESPACE, Options, own_namespace

ELECTION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s, resourceName: from-the-file}
"""


def test_there_is_no_leader_election_by_default():
    assert not Options().leader_election.leader_elect


def test_flags_of_leader_election_win_over_the_file(tmp_path, started):
    file = tmp_path / "scheduler.yaml"
    file.write_text(ELECTION)
    flags = ["--leader-elect-renew-deadline=20s", "--leader-elect-resource-namespace=ns"]
    assert CliRunner().invoke(main, ["run", f"--config={file}", *flags]).exit_code == 0
    found = started[0].leader_election
    assert found == LeaderElection(True, "40s", "20s", "2s", "leases", "from-the-file", "ns")


def test_leader_election_can_be_switched_off_on_the_command_line(tmp_path, started):
    file = tmp_path / "scheduler.yaml"
    file.write_text(ELECTION)
    CliRunner().invoke(main, ["run", f"--config={file}", "--leader-elect=false"])
    assert not started[0].leader_election.leader_elect


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        pytest.param(
            ["--leader-elect-lease-duration=10s"],
            "--leader-elect-lease-duration (10s) must be greater than --leader-elect-renew-deadline (10s)",
            id="lease and deadline",
        ),
        pytest.param(
            ["--leader-elect-retry-period=9s"],
            "--leader-elect-renew-deadline (10s) must be greater than 1.2 times --leader-elect-retry-period (9s)",
            id="deadline and retry period",
        ),
        pytest.param(
            ["--leader-elect-retry-period=0s"], "--leader-elect-retry-period must be greater than 0", id="zero"
        ),
    ],
)
def test_times_of_leader_election_that_contradict_each_other_are_an_error(started, flags, problem):
    done = CliRunner().invoke(main, ["run", "--leader-elect", *flags])
    assert done.exit_code == 1
    assert problem in " ".join(done.output.replace("\u2502", " ").split())
    assert started == []


def test_the_lease_is_in_the_namespace_of_the_operators_pod(monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "theirs")
    assert own_namespace() == "theirs"
    monkeypatch.delenv("POD_NAMESPACE")
    assert own_namespace() == SYSTEM_NAMESPACE
