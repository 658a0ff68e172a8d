"""Which version of Kubernetes the environment chooses."""

import os
import re
import subprocess

import pytest

from podwright.testing.versions import RELEASES, VersionError, Versions
from support.control_plane.operator_process import CHECKOUT


@pytest.mark.parametrize(
    ("text", "version", "minor"),
    [
        pytest.param("", RELEASES[-1], 37, id="none: the newest"),
        pytest.param("1.35.4", "1.35.4", 35, id="a release"),
        pytest.param("v1.36.3", "1.36.3", 36, id="with a leading v"),
        pytest.param("1.34", "1.34.4", 34, id="a minor version: its tested release"),
        pytest.param("1.36.1", "1.36.1", 36, id="a release that is not in the table"),
        pytest.param("1.38.0-alpha.1", "1.38.0-alpha.1", 38, id="a release before the first"),
    ],
)
def test_the_environment_chooses_the_version_of_kubernetes(text, version, minor):
    versions = Versions.from_environ({"KUBERNETES_VERSION": text})
    assert (versions.kubernetes, versions.kubernetes_minor) == (version, minor)
    assert versions.chosen == ({"kubernetes"} if text else set())
    assert (versions.etcd, versions.kwok) == (Versions().etcd, Versions().kwok)


@pytest.mark.parametrize(
    ("variable", "text", "error"),
    [
        ("KUBERNETES_VERSION", "1.33", "KUBERNETES_VERSION: '1.33' is not a version, for example 1.36.3"),
        ("KUBERNETES_VERSION", "latest", "KUBERNETES_VERSION: 'latest' is not a version, for example 1.36.3"),
        ("ETCD_VERSION", "3.6", "ETCD_VERSION: '3.6' is not a version"),
    ],
)
def test_what_is_not_a_version_is_rejected(variable, text, error):
    with pytest.raises(VersionError, match=f"^{re.escape(error)}$"):
        Versions.from_environ({variable: text})


def test_make_passes_the_version_to_its_commands():
    """`make cluster KUBERNETES=1.35.4` and the others: the variable reaches the command's environment."""
    environ = {name: value for name, value in os.environ.items() if name != "KUBERNETES_VERSION"}
    command = ["make", "--silent", "-C", str(CHECKOUT), "--eval=shown: ; @echo $$KUBERNETES_VERSION", "shown"]
    for arguments, shown in (["KUBERNETES=1.35.4"], "1.35.4"), ([], ""):
        done = subprocess.run([*command, *arguments], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == shown
