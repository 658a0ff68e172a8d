"""A real control plane on loopback for tests, development and benchmarks.

Read `ControlPlane` in `control_plane` first. `python -m podwright.testing --help` shows the command line.
"""

from podwright.testing.binaries import Binaries, BinariesMissingError
from podwright.testing.build import BuildError
from podwright.testing.client import AnswerError, Client, wait_until
from podwright.testing.control_plane import DEFAULT_CONTROLLERS, ControlPlane, KubectlError
from podwright.testing.objects import node, pod
from podwright.testing.processes import Process, ProcessError
from podwright.testing.servers import ControlPlaneOptions, ServerProcess
from podwright.testing.versions import VersionError, Versions
from podwright.testing.workload_api import WorkloadApi, workload_api

__all__ = [
    "DEFAULT_CONTROLLERS",
    "AnswerError",
    "Binaries",
    "BinariesMissingError",
    "BuildError",
    "Client",
    "ControlPlane",
    "ControlPlaneOptions",
    "KubectlError",
    "Process",
    "ProcessError",
    "ServerProcess",
    "VersionError",
    "Versions",
    "WorkloadApi",
    "node",
    "pod",
    "wait_until",
    "workload_api",
]
