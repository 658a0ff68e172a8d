"""Which programs make up the control plane, and at which versions.

Holds the table of programs that `podwright.testing` knows and the versions it is pinned to. `KUBERNETES_VERSION`
(1.36.2, say), `ETCD_VERSION` and `KWOK_VERSION` choose others. Read `binaries` next: where the programs are found.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Family = Literal["kubernetes", "etcd", "kwok"]

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)")


@dataclass(frozen=True, slots=True)
class Versions:
    """The version of each family of programs, without a leading `v`."""

    kubernetes: str = "1.37.0"
    etcd: str = "3.6.12"
    kwok: str = "0.8.0"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> "Versions":
        """The pinned versions, with what the environment says instead."""
        environ = os.environ if environ is None else environ
        chosen = {
            family: environ[variable].removeprefix("v")
            for family, variable in _VARIABLES.items()
            if environ.get(variable)
        }
        return cls(**chosen)

    def of(self, family: Family) -> str:
        return {"kubernetes": self.kubernetes, "etcd": self.etcd, "kwok": self.kwok}[family]


_VARIABLES = {"kubernetes": "KUBERNETES_VERSION", "etcd": "ETCD_VERSION", "kwok": "KWOK_VERSION"}


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the control plane: its file name, its Go package, how to ask for its version.

    `companions` are files that have to lie beside it. `test_main` is a Go test main of ours that is the whole program.
    """

    name: str
    family: Family
    package: str
    version_arguments: tuple[str, ...] = ("--version",)
    companions: tuple[str, ...] = ()
    test_main: Path | None = None

    def version_of(self, path: Path) -> str | None:
        """The version that the file at `path` reports, None if it does not say or does not run."""
        try:
            said = subprocess.run(
                [path, *self.version_arguments], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(said.stdout + said.stderr)
        return found.group(1) if found else None


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "podwright.dev/control-plane"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
        Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", companions=("stages.yaml",)),
    )
}


def same_minor(version: str, pinned: str) -> bool:
    """Whether two versions differ in the patch only: close enough for a program somebody else installed."""
    return version.split(".")[:2] == pinned.split(".")[:2]
