"""Where the demo plays: in a sandbox of its own, or on a cluster that it leaves as it was.

On a cluster everything has a name of its own, lives in one namespace or carries a label, and is removed at the end: pods,
namespace, policies, and the CRD if it was the demo that brought it. An operator that is installed there is used as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from podwright.api.crd import crd
from podwright.cli.demo.api import Api, DemoError, NotInTimeError, collection, explained, until
from podwright.cli.demo.objects import MANAGED_BY, Json, Names
from podwright.core.framework.interface import ClusterError
from podwright.kube.client import credentials
from podwright.kube.client.errors import ApiError, ConfigError
from podwright.kube.client.http import Http
from podwright.kube.kinds import CRD, NODE, POD, POLICY
from podwright.sandbox import Sandbox
from podwright.testing.processes import Process, ProcessError, free_port

CRD_NAME: Final = f"{POLICY.plural}.{POLICY.group}"
INSTALLED: Final = "app.kubernetes.io/name=podwright"
SOON: Final = 3.0
"""Seconds that a namespace gets to have its default service account."""


@dataclass(slots=True)
class Setting:
    """The cluster, who decides there, and what everything is called."""

    api: Api
    names: Names
    where: str
    sandbox: bool
    operator: Process | None = None

    def check_operator(self) -> None:
        """Raises DemoError when the operator that we started has ended."""
        if self.operator is not None and not self.operator.alive:
            # The last line says where the log is, and that goes with us.
            log = self.operator.log_tail().rpartition("\n")[0]
            raise DemoError(f"the operator ended with status {self.operator.returncode}\n{log}")


@contextlib.asynccontextmanager
async def sandbox_setting(nodes: int, zones: int, say: Callable[[str], None]) -> AsyncIterator[Setting]:
    """A sandbox with nodes, and an operator as a process of its own. Raises DemoError."""
    names = Names("podwright-demo", "podwright", "web-spread", "batch-pack")
    with tempfile.TemporaryDirectory(prefix="podwright-demo-") as folder:
        async with Sandbox() as sandbox:
            say(f"A sandbox: an API server in memory with {nodes} nodes in {zones} zones")
            sandbox.add_nodes(nodes, zones)
            kubeconfig = str(sandbox.write_kubeconfig(Path(folder, "kubeconfig")))
            async with _connected(kubeconfig, None) as http:
                setting = Setting(Api(http), names, f"a sandbox with {nodes} nodes", sandbox=True)
                await setting.api.create(crd())
                await setting.api.create(_namespace(names))
                async with _operator(setting, kubeconfig, None, Path(folder), say):
                    yield setting


@contextlib.asynccontextmanager
async def cluster_setting(kubeconfig: str, context: str | None, say: Callable[[str], None]) -> AsyncIterator[Setting]:
    """A cluster that is there already. Raises DemoError."""
    suffix = secrets.token_hex(3)
    names = Names(f"podwright-demo-{suffix}", f"podwright-demo-{suffix}", f"demo-{suffix}-web", f"demo-{suffix}-batch")
    with tempfile.TemporaryDirectory(prefix="podwright-demo-") as folder:
        async with _connected(kubeconfig, context) as http:
            setting = Setting(Api(http), names, f"the cluster of {kubeconfig}", sandbox=False)
            say(f"Your cluster: all that is created lives in namespace {names.namespace} and goes at the end")
            async with (
                explained("preparing the cluster"),
                _prepared(setting),
                _operator(setting, kubeconfig, context, Path(folder), say),
            ):
                yield setting


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
async def _prepared(setting: Setting) -> AsyncIterator[None]:
    api, names = setting.api, setting.names
    brought = not await api.exists(CRD.path(CRD_NAME))
    try:
        if brought:
            await api.create(crd())
            await until(lambda: api.exists(POLICY.collection), "SchedulerPolicies being served")
        await api.create(_namespace(names))
        await _service_account(api, names.namespace)
        yield
    finally:
        await asyncio.shield(_removed(api, names, brought=brought))


async def _service_account(api: Api, namespace: str) -> None:
    """Pods need the default account; where no controller makes it, we do."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    with contextlib.suppress(DemoError):
        await until(lambda: api.exists(path), "the default service account", SOON)
        return
    with contextlib.suppress(ApiError):
        metadata = {"name": "default", "namespace": namespace}
        await api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


async def _removed(api: Api, names: Names, *, brought: bool) -> None:
    """Removes what it can. Raises DemoError naming what stays."""
    paths = [POLICY.path(name) for name in (names.web_policy, names.batch_policy)]
    paths += [collection(POD, names.namespace), f"/api/v1/namespaces/{names.namespace}"]
    left = [path for path in paths if not await _gone(api, path)]
    if brought and not left and not await _kind_gone(api):
        left.append(CRD.path(CRD_NAME))
    if left:
        raise DemoError(f"these could not be removed: {', '.join(left)}")


async def _kind_gone(api: Api) -> bool:
    """Removes the CRD and waits for it: the API server finishes after its answer. It stays with policies that somebody else has made."""
    path = CRD.path(CRD_NAME)

    async def gone() -> bool:
        return not await api.exists(path)

    try:
        if await gone() or await api.list(POLICY):
            return True
        await api.delete(path)
        await until(gone, "the CRD being removed")
    except (ClusterError, NotInTimeError):
        return False
    return True


async def _gone(api: Api, path: str) -> bool:
    try:
        await api.delete(path)
    except ClusterError:
        return False
    return True


@contextlib.asynccontextmanager
async def _operator(
    setting: Setting, kubeconfig: str, context: str | None, folder: Path, say: Callable[[str], None]
) -> AsyncIterator[None]:
    """The operator as a process of its own, or the one that is installed in the cluster."""
    if not setting.sandbox and (installed := await _installed(setting.api)) is not None:
        namespace, name = installed
        say(f"The operator that is installed in the cluster decides: Deployment {name} of namespace {namespace}")
        try:
            yield
        except NotInTimeError as error:
            logs = f"kubectl -n {namespace} logs deployment/{name}"
            raise NotInTimeError(f"{error}\nlook at the logs of the operator that is installed: {logs}") from error
        return
    command = [sys.executable, "-m", "podwright", "run", "--kubeconfig", kubeconfig]
    command += ["--context", context] if context else []
    port = free_port()
    command += ["--scheduler-name", setting.names.scheduler, "--health-address", f"127.0.0.1:{port}"]
    setting.operator = Process("the operator", command, folder / "operator.log")
    try:
        setting.operator.start()
        say(f"The operator: podwright run, as process {setting.operator.pid}")
        async with aiohttp.ClientSession() as session:
            await until(lambda: _ready(session, port), "the operator being ready", alive=setting.check_operator)
        yield
    except ProcessError as error:
        raise DemoError(str(error)) from error
    finally:
        await asyncio.to_thread(setting.operator.stop)


async def _ready(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def _installed(api: Api) -> tuple[str, str] | None:
    """Namespace and name of a Deployment of ours that has ready replicas. None also if we may not look."""
    try:
        deployments = await api.read("/apis/apps/v1/deployments", labelSelector=INSTALLED)
    except ApiError:
        return None
    ready = (item["metadata"] for item in deployments["items"] if (item.get("status") or {}).get("readyReplicas"))
    return next(((metadata["namespace"], metadata["name"]) for metadata in ready), None)


def _namespace(names: Names) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.namespace, "labels": MANAGED_BY}}


async def cluster_objects(api: Api) -> tuple[list[Json], list[Json]]:
    """All nodes and all pods."""
    return await api.list(NODE), await api.list(POD)
