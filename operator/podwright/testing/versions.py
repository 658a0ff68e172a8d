"""The programs of the control plane, and Helm, with their pinned versions.

The environment variables `KUBERNETES_VERSION` (for example 1.36.3, or 1.36 for the release of that minor version in
RELEASES), `ETCD_VERSION`, `KWOK_VERSION` and `HELM_VERSION` override the versions. Read `binaries` next, which finds
the programs.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from podwright.core.objects.dataclass import dataclass

Family = Literal["kubernetes", "etcd", "kwok", "helm"]

RELEASES: Final = ("1.34.4", "1.35.4", "1.36.3", "1.37.2")
"""The releases of Kubernetes with which Podwright is tested, oldest first: one of each supported minor version. The
last is the default.
"""

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)")


class VersionError(ValueError):
    """The environment asks for a version that cannot be one. The message names the variable."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The version of each family of programs, without a leading `v`. `chosen`: the families whose version the
    environment gives.
    """

    kubernetes: str = RELEASES[-1]
    etcd: str = "3.6.12"
    kwok: str = "0.8.0"
    helm: str = "3.22.0"
    chosen: frozenset[Family] = frozenset()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> "Versions":
        """The pinned versions, with the overrides of the environment. Raises VersionError."""
        environ = os.environ if environ is None else environ
        chosen = {
            family: _chosen(family, variable, environ[variable].strip())
            for family, variable in _VARIABLES.items()
            if environ.get(variable)
        }
        return cls(**chosen, chosen=frozenset(chosen))

    def of(self, family: Family) -> str:
        return {"kubernetes": self.kubernetes, "etcd": self.etcd, "kwok": self.kwok, "helm": self.helm}[family]

    @property
    def kubernetes_minor(self) -> int:
        """The minor version of Kubernetes, 36 for 1.36.3."""
        return int(self.kubernetes.split(".")[1])


_VARIABLES: Mapping[Family, str] = {
    "kubernetes": "KUBERNETES_VERSION",
    "etcd": "ETCD_VERSION",
    "kwok": "KWOK_VERSION",
    "helm": "HELM_VERSION",
}


def _chosen(family: Family, variable: str, text: str) -> str:
    if family == "kubernetes":
        for release in RELEASES:
            if text.removeprefix("v") == release.rpartition(".")[0]:
                return release
    found = _VERSION.fullmatch(text)
    if found is None:
        example = ", for example 1.36.3" if family == "kubernetes" else ""
        raise VersionError(f"{variable}: {text!r} is not a version{example}")
    return found.group(1)


@dataclass(frozen=True, slots=True)
class Executable:
    """A program of the control plane: its file name, its Go package, and the arguments that print its version.

    `companions` are files that it needs in its folder. `source` is Go code to compile instead of a published package: a
    folder with a main package, or a test main.
    """

    name: str
    family: Family
    package: str
    version_arguments: tuple[str, ...] = ("--version",)
    companions: tuple[str, ...] = ()
    source: Path | None = None

    def version_of(self, path: Path) -> str | None:
        """The version that the program at `path` prints, None if it prints none or does not run."""
        try:
            done = subprocess.run(
                [path, *self.version_arguments], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(done.stdout + done.stderr)
        return found.group(1) if found else None


PROGRAMS: dict[str, Executable] = {
    program.name: program
    for program in (
        Executable("etcd", "etcd", "podwright.dev/control-plane"),
        Executable("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Executable("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
        Executable("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Executable("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Executable("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", companions=("stages.yaml",)),
        Executable("helm", "helm", "helm.sh/helm/v3/cmd/helm", ("version",)),
    )
}


def same_minor(version: str, pinned: str) -> bool:
    """True if two versions differ only in the patch; close enough for an installed program."""
    return version.split(".")[:2] == pinned.split(".")[:2]
