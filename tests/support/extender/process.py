"""`podwright extender` as a process, on the real control plane."""

import sys

from podwright.testing import ControlPlane
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit


def start_extender(cluster: ControlPlane, *flags: str) -> kit.Operator:
    """The running extender, which answers on its port of loopback."""
    port = free_port()
    settings = {"PODWRIGHT_KUBECONFIG": str(cluster.service_account_kubeconfig(*kit.ACCOUNT))}
    arguments = [f"--address=127.0.0.1:{port}", "--allowed-scheduler-names=*,default-scheduler", *flags]
    process = cluster.start_process("extender", [sys.executable, "-m", "podwright", "extender", *arguments], settings)
    extender = kit.Operator(process, port)
    kit.wait_ready(extender)
    return extender
