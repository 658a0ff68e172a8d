"""A real control plane for tests, development and benchmarks: etcd, kube-apiserver and optional further components.

    with ControlPlane() as cluster:
        cluster.client.create(node("node-1"))
        print(cluster.kubectl("get", "nodes"))

It listens only on loopback, enforces RBAC and starts within seconds. It is cleaned up however this process ends (see
`processes`). After a failure, it keeps the logs and prints their path. `servers` holds the command lines, `binaries`
finds the programs.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from podwright.testing import processes, servers
from podwright.testing.binaries import Binaries
from podwright.testing.bulk import Bulk
from podwright.testing.client import AnswerError, Client
from podwright.testing.folders import WorkFolder
from podwright.testing.keys import new_user, write_signing_key, write_token_file
from podwright.testing.kubeconfig_files import write_kubeconfig
from podwright.testing.processes import Process, free_port
from podwright.testing.servers import ControlPlaneOptions, ServerProcess

DEFAULT_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
)


class KubectlError(RuntimeError):
    """kubectl failed. `output` is its stderr, or its stdout if stderr is empty."""

    def __init__(self, arguments: Sequence[str], output: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {output.strip()}")
        self.output = output


class ControlPlane:
    """One cluster. Attributes: `kubeconfig` (the admin's), `url`, `client`, `bulk`, `etcd`, `api_server`, `logs`."""

    def __init__(
        self, options: ControlPlaneOptions | None = None, binaries: Binaries | None = None, **changes: Any
    ) -> None:
        """Prepares the processes but starts none. `changes` are fields of Options. Raises BinariesMissingError and
        BuildError.
        """
        self.options = replace(options or ControlPlaneOptions(), **changes)
        self.binaries = binaries or Binaries()
        self.binaries.require(["etcd", "kube-apiserver", "kubectl"])
        programs = {name: self.binaries.path(name) for name in ("etcd", "kube-apiserver", "kubectl")}
        self._work = WorkFolder()
        self.logs = self._work.logs
        self._admin = new_user("admin", "system:masters")
        self._users = {name: new_user(name) for name in ("system:kube-scheduler", "system:kube-controller-manager")}
        self.certificate_authority = self.folder / "certificates" / "apiserver.crt"
        self._kubectl = programs["kubectl"]
        self._environ = servers.quiet_environ(self.folder)
        self._components: list[Process] = []
        self._prepare(programs)

    def _prepare(self, programs: Mapping[str, Path]) -> None:
        etcd_port, peer_port, port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{port}"
        files = servers.ApiServerFiles(
            self.folder / "certificates", self.folder / "service-account.key", self.folder / "tokens.csv"
        )
        write_signing_key(files.signing_key)
        write_token_file(files.tokens, [self._admin, *self._users.values()])
        self._signing_key = files.signing_key
        self.client = Client(
            "127.0.0.1", port, certificate_authority=self.certificate_authority, token=self._admin.token
        )
        self.bulk = Bulk(self.url, self.certificate_authority, self._admin.token)
        self.kubeconfig = self._kubeconfig("admin", self._admin.token)
        self.etcd = self._server(
            "etcd",
            servers.etcd_command(programs["etcd"], self._etcd_data, etcd_port, peer_port, self.options),
            f"http://127.0.0.1:{etcd_port}/readyz",
        )
        self.api_server = ServerProcess(
            "kube-apiserver",
            servers.api_server_command(programs["kube-apiserver"], port, etcd_port, files, self.options),
            log=self.logs / "kube-apiserver.log",
            ready=lambda: self.certificate_authority.exists() and self.client.ready(),
            environ=self._environ,
        )

    @property
    def folder(self) -> Path:
        return self._work.path

    @property
    def _etcd_data(self) -> Path:
        return self.folder / "etcd"

    def start(self) -> Self:
        """Starts etcd and the API server, and returns when both are ready. Raises ProcessError after stopping
        everything.
        """
        try:
            if self.options.etcd_data is not None:
                shutil.copytree(self.options.etcd_data, self._etcd_data)
            self.etcd.start()
            self.api_server.start()
        except BaseException:
            self.stop(keep_logs=True)
            raise
        return self

    def stop(self, *, keep_logs: bool = False) -> None:
        """Kills all processes and removes the folder. With `keep_logs`, keeps the logs and prints their path to
        stderr.
        """
        self.client.close()
        self.kill_components()
        for process in (self.api_server, self.etcd):
            process.kill()
        if not self.folder.exists():
            return
        if keep_logs or os.environ.get("PODWRIGHT_KEEP_LOGS"):
            print(f"the control plane's logs are in {self._work.keep()}", file=sys.stderr, flush=True)
        else:
            self._work.remove()

    def kill_components(self) -> None:
        """Kills everything except etcd and the API server."""
        while self._components:
            self._components.pop().kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(keep_logs=kind is not None and issubclass(kind, Exception))

    def save_data(self, target: Path) -> None:
        """Stops everything, and copies etcd's data to `target`, for `ControlPlaneOptions.etcd_data` of later control
        planes.
        """
        for process in (*reversed(self._components), self.api_server):
            process.kill()
        self.etcd.stop()
        shutil.copytree(self._etcd_data, target)

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Runs kubectl as the admin or with another kubeconfig, and returns its stdout. Raises KubectlError."""
        done = subprocess.run(
            [self._kubectl, f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments],
            input=stdin,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120 * processes.patience,
            check=False,
        )
        if done.returncode:
            raise KubectlError(arguments, done.stderr or done.stdout)
        return done.stdout

    def apply(self, *manifests: str | Path | Mapping[str, Any]) -> str:
        """Runs `kubectl apply` for files, kustomization folders, YAML text or objects, and returns its stdout.

        The API server lists a new kind some 2 seconds after it serves it. Until then, kubectl does not find the kind,
        and this runs it again.
        """
        outputs = []
        for manifest in manifests:
            if isinstance(manifest, Path):
                outputs.append(self._apply("-k" if manifest.is_dir() else "-f", str(manifest)))
            else:
                text = manifest if isinstance(manifest, str) else yaml.safe_dump(dict(manifest))
                outputs.append(self._apply("-f", "-", stdin=text))
        return "".join(outputs)

    def _apply(self, *arguments: str, stdin: str | None = None) -> str:
        deadline = time.monotonic() + 10 * processes.patience
        while True:
            try:
                return self.kubectl("apply", *arguments, stdin=stdin)
            except KubectlError as error:
                if "no matches for kind" not in error.output or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def service_account_kubeconfig(self, namespace: str, name: str, hours: int = 24) -> Path:
        """A kubeconfig with a token that the API server issues for a service account.

        Creates the account and its namespace if they are missing. RBAC decides what the account may do.
        """
        for body in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        ):
            try:
                self.client.create(body)
            except AnswerError as error:
                if error.reason != "AlreadyExists":
                    raise
        token = self.client.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": hours * 3600},
            },
        )["status"]["token"]
        return self._kubeconfig(f"{namespace}-{name}", token, namespace)

    def start_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        flags: Sequence[str] = (),
        wait: bool = True,
    ) -> ServerProcess:
        """Starts kube-scheduler with these fields of a KubeSchedulerConfiguration.

        By default, it has no leader election and practically no limit on requests. Without `wait`, this returns before
        kube-scheduler is ready.
        """
        kubeconfig = self.user_kubeconfig("system:kube-scheduler")
        complete = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **(config or {}),
        }
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
        complete["clientConnection"] = connection | dict(complete.get("clientConnection", {}))
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(complete))
        port = free_port()
        command = servers.scheduler_command(self.binaries.path("kube-scheduler"), port, kubeconfig, file)
        gates = servers.feature_gate_flags(self.options.feature_gates)
        return self._start_component(name, [*command, *gates, *flags], f"https://127.0.0.1:{port}/readyz", wait=wait)

    def start_controller_manager(
        self, controllers: Sequence[str] = DEFAULT_CONTROLLERS, flags: Sequence[str] = ()
    ) -> ServerProcess:
        """Starts kube-controller-manager with these controllers; see the documentation of its flag --controllers."""
        kubeconfig = self.user_kubeconfig("system:kube-controller-manager")
        port = free_port()
        command = servers.controller_manager_command(
            self.binaries.path("kube-controller-manager"),
            port,
            kubeconfig,
            self._signing_key,
            controllers,
        )
        gates = servers.feature_gate_flags(self.options.feature_gates)
        return self._start_component(
            "kube-controller-manager", [*command, *gates, *flags], f"https://127.0.0.1:{port}/healthz"
        )

    @property
    def kwok_stages(self) -> Path:
        """A file of YAML documents: KWOK's own Stages, which simulate a kubelet."""
        return self.binaries.path("kwok").parent / "stages.yaml"

    def start_kwok(self, flags: Sequence[str] = (), stages: Path | None = None) -> ServerProcess:
        """Starts KWOK, which simulates the kubelets of all nodes: bound pods run, nodes are ready and renew their
        leases.

        `stages` is a file of Stages to use instead of `kwok_stages`.
        """
        port = free_port()
        command = servers.kwok_command(self.binaries.path("kwok"), port, self.kubeconfig, stages or self.kwok_stages)
        return self._start_component("kwok", [*command, *flags], f"http://127.0.0.1:{port}/healthz")

    def start_process(
        self, name: str, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
    ) -> Process:
        """Starts another program, for example an operator, that ends with the control plane. Its log is in `logs`."""
        process = Process(name, command, log=self.logs / f"{name}.log", environ={**os.environ, **(environ or {})})
        self._components.append(process)
        process.start()
        return process

    def _start_component(
        self, name: str, command: Sequence[str], ready_url: str, *, wait: bool = True
    ) -> ServerProcess:
        server = self._server(name, command, ready_url)
        self._components.append(server)
        if wait:
            server.start()
        else:
            server.start_unready()
        return server

    def _server(self, name: str, command: Sequence[str], ready_url: str) -> ServerProcess:
        return ServerProcess(
            name,
            command,
            log=self.logs / f"{name}.log",
            ready=lambda: servers.answers_ok(ready_url),
            environ=self._environ,
        )

    def user_kubeconfig(self, name: str) -> Path:
        """The kubeconfig of `system:kube-scheduler` or `system:kube-controller-manager`, who have the rights that
        Kubernetes gives them.
        """
        user = self._users[name]
        return self._kubeconfig(user.name.replace(":", "-"), user.token)

    def _kubeconfig(self, name: str, token: str, namespace: str = "default") -> Path:
        path = self.folder / f"{name}.kubeconfig"
        return write_kubeconfig(path, self.url, self.certificate_authority, token, namespace)
