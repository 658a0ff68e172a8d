"""Files that options name, up to a bound."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.extender.clients import clients_of
from podwright.kube.bounded_files import LONGEST_FILE, read_at_most
from podwright.kube.client.credentials.kubeconfig_file import LONGEST_KUBECONFIG, read_file
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.options.values import EXTENDERS
from podwright.simulator.manifests import read_manifests


@pytest.fixture
def huge(tmp_path):
    """The path of a file that is larger than any bound. It takes no room on the disk."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(8 * LONGEST_KUBECONFIG)
    return path


def test_a_file_without_an_end_is_read_up_to_the_bound():
    with pytest.raises(OSError, match="the file is larger than 1000 bytes"):
        read_at_most(Path("/dev/zero"), 1000, pipes=True)


def test_only_regular_files_are_read_and_nobody_waits_for_a_writer(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(OSError, match="is not a regular file"):
            read_at_most(path)
    with pytest.raises(IsADirectoryError):
        read_at_most(tmp_path)


def test_symbolic_links_are_followed_as_in_mounted_secrets(tmp_path):
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1" / "token").write_bytes(b"t")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "token").symlink_to("..data/token")
    assert read_at_most(tmp_path / "token") == b"t"


def test_commands_read_manifests_from_pipes(tmp_path):
    """As in `podwright simulate -f <(kustomize build .)`."""
    os.mkfifo(pipe := tmp_path / "pipe")
    manifest = b"{apiVersion: v1, kind: Node, metadata: {name: n}}"
    writing = threading.Thread(target=pipe.write_bytes, args=(manifest,))
    writing.start()
    (found,) = read_manifests(str(pipe))
    writing.join()
    assert found["metadata"]["name"] == "n"


def test_a_file_may_be_as_long_as_the_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * LONGEST_FILE)
    assert len(read_at_most(path)) == LONGEST_FILE


@pytest.mark.parametrize("flag", ["--config", "--extenders"])
def test_files_of_flags_are_read_up_to_the_bound(huge, flag):
    done = CliRunner().invoke(main, ["run", f"{flag}={huge}"], terminal_width=400)
    assert done.exit_code == 1
    assert f"{huge}: the file is larger than {1 << 20} bytes" in " ".join(done.output.split())


def test_a_kubeconfig_is_read_up_to_the_bound(huge):
    with pytest.raises(ConfigError, match=f"the file is larger than {LONGEST_KUBECONFIG} bytes"):
        read_file(huge)


def test_certificates_of_extenders_are_read_up_to_the_bound(huge, tmp_path):
    file = tmp_path / "extenders.yaml"
    entry = (
        f"{{name: a, urlPrefix: 'https://127.0.0.1/', filterVerb: f, enableHTTPS: true, tlsConfig: {{caFile: {huge}}}}}"
    )
    file.write_text(f"extenders: [{entry}]")
    with pytest.raises(ConfigError, match=f"the file is larger than {LONGEST_FILE} bytes"):
        clients_of(Options(extenders=EXTENDERS.parse(str(file))))
