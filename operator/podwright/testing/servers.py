"""The command lines of the control plane's programs, and their readiness checks."""

import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from podwright.core.objects.dataclass import dataclass
from podwright.testing.processes import Process

DISABLED_ADMISSION = ("TaintNodesByCondition", "ServiceAccount")
"""These plugins need controllers that do not run here: the node lifecycle controller, which removes the not-ready taint
of new nodes, and the service account controller, which creates the default account of each namespace."""


@dataclass(frozen=True, slots=True)
class ControlPlaneOptions:
    """Options of a control plane. Extra flags have the form of the command line."""

    fsync: bool = False
    """True if etcd syncs each write to disk. Tests do not need this; benchmarks may."""
    etcd_data: Path | None = None
    """A data folder to start from, written by `ControlPlane.save_data`. It is copied and never modified."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """For the API server, kube-scheduler and kube-controller-manager."""
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    """API versions to serve or not, for example `scheduling.k8s.io/v1beta1`."""
    disabled_admission: Sequence[str] = DISABLED_ADMISSION
    api_server_flags: Sequence[str] = ()
    etcd_flags: Sequence[str] = ()


class ServerProcess(Process):
    """A process with a readiness check: `start()` returns when it is ready."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        ready: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        super().__init__(name, command, log, environ)
        self._ready = ready
        self._timeout = timeout

    def start(self) -> None:
        """Starts or restarts the process, and returns when it is ready. Raises ProcessError."""
        super().start()
        self.wait_ready(self._ready, self._timeout)

    def start_unready(self) -> None:
        """Starts the process without waiting for readiness."""
        super().start()


def etcd_command(
    program: Path, data: Path, client_port: int, peer_port: int, options: ControlPlaneOptions
) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(program),
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--unsafe-no-fsync={str(not options.fsync).lower()}",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
        *options.etcd_flags,
    ]


@dataclass(frozen=True, slots=True)
class ApiServerFiles:
    """The paths of the API server's certificates, signing key and tokens."""

    certificates: Path
    signing_key: Path
    tokens: Path


def api_server_command(
    program: Path, port: int, etcd_port: int, files: ApiServerFiles, options: ControlPlaneOptions
) -> list[str]:
    command = [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={files.certificates}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={files.signing_key}",
        f"--service-account-key-file={files.signing_key}",
        "--endpoint-reconciler-type=none",  # 1.37 does not publish a loopback address
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if options.disabled_admission:
        command.append(f"--disable-admission-plugins={','.join(options.disabled_admission)}")
    if options.runtime_config:
        command.append(f"--runtime-config={_settings(options.runtime_config)}")
    return [*command, *feature_gate_flags(options.feature_gates), *options.api_server_flags]


def scheduler_command(program: Path, port: int, kubeconfig: Path, config: Path) -> list[str]:
    return [str(program), f"--config={config}", *_serving(port, kubeconfig)]


def controller_manager_command(
    program: Path, port: int, kubeconfig: Path, signing_key: Path, controllers: Sequence[str]
) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={signing_key}",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        *_serving(port, kubeconfig),
    ]


def kwok_command(program: Path, port: int, kubeconfig: Path, stages: Path) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]


def feature_gate_flags(gates: Mapping[str, bool]) -> list[str]:
    return [f"--feature-gates={_settings(gates)}"] if gates else []


def answers_ok(url: str) -> bool:
    """True if a GET of `url`, on loopback, returns 200. The certificate is not verified."""
    context = None
    if url.startswith("https:"):
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 -- loopback; there is no public one
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310 -- loopback
            return bool(answer.status == 200)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False


def quiet_environ(home: Path) -> dict[str, str]:
    """The environment without the variables that point to the user's cluster, proxies or settings."""
    dropped = {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTP_PROXY", "HTTPS_PROXY"}
    kept = {name: value for name, value in os.environ.items() if name.upper() not in dropped}
    return {**kept, "HOME": str(home), "KUBECACHEDIR": str(home / "kubectl-cache"), "KUBERC": "off"}


def _serving(port: int, kubeconfig: Path) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]


def _settings(values: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in values.items())
