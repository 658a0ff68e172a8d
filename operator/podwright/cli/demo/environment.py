"""Where the demo runs: in its own sandbox, or on an existing cluster that it leaves unchanged.

On a cluster, all objects of the demo have unique names and a label. The demo removes them at the end: its pods,
namespace and policies, and also the CRD if the demo created it. It uses the operator that is installed there, or else
starts its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import aiohttp

from podwright.api.crd import crd
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.cli.demo.api import Api, DemoError, NotInTimeError, collection, demo_errors, wait_until
from podwright.cli.demo.objects import MANAGED_BY, Json, Names
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.credentials import credentials
from podwright.kube.client.errors import ApiError, ConfigError
from podwright.kube.client.http import Http
from podwright.kube.kinds import CRD, POD, POLICY
from podwright.sandbox import Sandbox
from podwright.testing.processes import Process, ProcessError, free_port

CRD_NAME: Final = f"{POLICY.plural}.{POLICY.group}"
INSTALLED: Final = "app.kubernetes.io/name=podwright"
SERVICE_ACCOUNT_SECONDS: Final = 3.0
"""How long the demo waits for a controller to create the namespace's default service account."""


@dataclass(frozen=True, slots=True)
class DemoEnvironment:
    """The API server, the names of the demo's objects on it, and the operator's process if the demo started it."""

    api: Api
    names: Names
    sandbox: bool
    operator: Process | None
    page: str = ""
    """The URL of the page of the operator that the demo started."""

    def check_operator(self) -> None:
        """Raises DemoError if the operator that the demo started has ended."""
        if self.operator is not None:
            _check_alive(self.operator)


def _check_alive(operator: Process) -> None:
    if not operator.alive:
        # The last line is the path of the log, which is deleted when the demo ends.
        log = operator.log_tail().rpartition("\n")[0]
        raise DemoError(f"the operator ended with status {operator.returncode}\n{log}")


@contextlib.asynccontextmanager
async def sandbox_environment(nodes: int, zones: int, say: Callable[[str], None]) -> AsyncIterator[DemoEnvironment]:
    """A sandbox with nodes, and an operator in a separate process. Raises DemoError."""
    names = Names("podwright-demo", PODWRIGHT_SCHEDULER_NAME, "web-spread", "batch-pack")
    with tempfile.TemporaryDirectory(prefix="podwright-demo-") as folder:
        async with Sandbox() as sandbox:
            say(f"Sandbox: an in-memory API server with {nodes} nodes in {zones} zones")
            sandbox.add_nodes(nodes, zones)
            kubeconfig = str(sandbox.write_kubeconfig(Path(folder, "kubeconfig")))
            async with _connected(kubeconfig, None) as http:
                api = Api(http)
                await api.create(crd())
                await api.create(_namespace(names))
                command = _operator_command(kubeconfig, None, names.scheduler)
                async with _started_operator(command, Path(folder), say) as (operator, page):
                    yield DemoEnvironment(api, names, sandbox=True, operator=operator, page=page)


@contextlib.asynccontextmanager
async def cluster_environment(
    kubeconfig: str, context: str | None, say: Callable[[str], None]
) -> AsyncIterator[DemoEnvironment]:
    """An existing cluster. Raises DemoError."""
    suffix = secrets.token_hex(3)
    names = Names(f"podwright-demo-{suffix}", f"podwright-demo-{suffix}", f"demo-{suffix}-web", f"demo-{suffix}-batch")
    with tempfile.TemporaryDirectory(prefix="podwright-demo-") as folder:
        async with _connected(kubeconfig, context) as http:
            api = Api(http)
            say(f"Your cluster: pods go to namespace {names.namespace}; everything is removed at the end")
            async with demo_errors("preparing the cluster"), _prepared(api, names):
                installed = await _installed(api)
                if installed is not None:
                    async with _installed_operator(*installed, say):
                        yield DemoEnvironment(api, names, sandbox=False, operator=None)
                else:
                    command = _operator_command(kubeconfig, context, names.scheduler)
                    async with _started_operator(command, Path(folder), say) as (operator, page):
                        yield DemoEnvironment(api, names, sandbox=False, operator=operator, page=page)


@contextlib.asynccontextmanager
async def _connected(kubeconfig: str, context: str | None) -> AsyncIterator[Http]:
    try:
        http = Http(credentials.load(kubeconfig, context, time.time))
        try:
            yield http
        finally:
            await http.close()
    except ConfigError as error:
        raise DemoError(str(error)) from error


@contextlib.asynccontextmanager
async def _prepared(api: Api, names: Names) -> AsyncIterator[None]:
    crd_created = not await api.exists(CRD.path(CRD_NAME))
    try:
        if crd_created:
            await api.create(crd())
            await wait_until(lambda: api.exists(POLICY.collection), "the API server to serve SchedulerPolicies")
        await api.create(_namespace(names))
        await _service_account(api, names.namespace)
        yield
    finally:
        await asyncio.shield(_remove(api, names, crd_created=crd_created))


async def _service_account(api: Api, namespace: str) -> None:
    """Pods need the default service account. Creates it if no controller does."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    with contextlib.suppress(DemoError):
        await wait_until(lambda: api.exists(path), "the default service account", SERVICE_ACCOUNT_SECONDS)
        return
    with contextlib.suppress(ApiError):
        metadata = {"name": "default", "namespace": namespace}
        await api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


async def _remove(api: Api, names: Names, *, crd_created: bool) -> None:
    """Removes the demo's objects. Raises DemoError naming those that it could not remove."""
    paths = [POLICY.path(name) for name in (names.web_policy, names.batch_policy)]
    paths += [collection(POD, names.namespace), f"/api/v1/namespaces/{names.namespace}"]
    left = [path for path in paths if not await _delete(api, path)]
    if crd_created and not left and not await _delete_crd(api):
        left.append(CRD.path(CRD_NAME))
    if left:
        raise DemoError(f"could not remove {', '.join(left)}")


async def _delete_crd(api: Api) -> bool:
    """Removes the CRD, unless other users have created policies, and waits until it is gone. False if that fails."""
    path = CRD.path(CRD_NAME)

    async def gone() -> bool:
        return not await api.exists(path)

    try:
        if await gone() or await api.list(POLICY):
            return True
        await api.delete(path)
        await wait_until(gone, "the removal of the CRD")
    except (ClusterError, NotInTimeError):
        return False
    return True


async def _delete(api: Api, path: str) -> bool:
    try:
        await api.delete(path)
    except ClusterError:
        return False
    return True


@contextlib.asynccontextmanager
async def _installed_operator(namespace: str, name: str, say: Callable[[str], None]) -> AsyncIterator[None]:
    """The operator that is installed in the cluster. Timeouts name its logs."""
    say(f"Operator: Deployment {name} in namespace {namespace}, which is installed in the cluster")
    try:
        yield
    except NotInTimeError as error:
        logs = f"kubectl -n {namespace} logs deployment/{name}"
        raise NotInTimeError(f"{error}\nsee the logs of the installed operator: {logs}") from error


def _operator_command(kubeconfig: str, context: str | None, scheduler: str) -> list[str]:
    command = [sys.executable, "-m", "podwright", "run", "--kubeconfig", kubeconfig]
    command += ["--context", context] if context else []
    return [*command, "--scheduler-name", scheduler]


@contextlib.asynccontextmanager
async def _started_operator(
    command: list[str], folder: Path, say: Callable[[str], None]
) -> AsyncIterator[tuple[Process, str]]:
    """The operator in a separate process, ready to schedule, and the URL of its page."""
    port = free_port()
    operator = Process("the operator", [*command, "--health-address", f"127.0.0.1:{port}"], log=folder / "operator.log")
    try:
        operator.start()
        say(f"Operator: podwright run, process {operator.pid}")
        async with aiohttp.ClientSession() as session:
            await wait_until(
                lambda: _ready(session, port),
                "the operator to become ready",
                check_alive=lambda: _check_alive(operator),
            )
        yield operator, f"http://localhost:{port}/page/"
    except ProcessError as error:
        raise DemoError(str(error)) from error
    finally:
        await asyncio.to_thread(operator.stop)


async def _ready(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def _installed(api: Api) -> tuple[str, str] | None:
    """Namespace and name of an installed operator's Deployment with ready replicas. None also if listing is not
    allowed.
    """
    try:
        deployments = await api.read("/apis/apps/v1/deployments", labelSelector=INSTALLED)
    except ApiError:
        return None
    ready = (item["metadata"] for item in deployments["items"] if (item.get("status") or {}).get("readyReplicas"))
    return next(((metadata["namespace"], metadata["name"]) for metadata in ready), None)


def _namespace(names: Names) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.namespace, "labels": MANAGED_BY}}
