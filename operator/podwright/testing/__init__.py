"""A real control plane on loopback for tests, development and benchmarks.

Read `ControlPlane` in `control_plane` first. `python -m podwright.testing --help` shows the command line.
"""

from podwright.testing.binaries import Binaries, BinariesMissingError
from podwright.testing.build import BuildError
from podwright.testing.client import ApiError, Client, wait_until
from podwright.testing.control_plane import DEFAULT_CONTROLLERS, ControlPlane, KubectlError
from podwright.testing.objects import node, pod
from podwright.testing.processes import Process, ProcessError
from podwright.testing.servers import Options, Server
from podwright.testing.versions import Versions

__all__ = [
    "DEFAULT_CONTROLLERS",
    "ApiError",
    "Binaries",
    "BinariesMissingError",
    "BuildError",
    "Client",
    "ControlPlane",
    "KubectlError",
    "Options",
    "Process",
    "ProcessError",
    "Server",
    "Versions",
    "node",
    "pod",
    "wait_until",
]
