"""Kubeconfigs are read as kubectl reads them: the same target and the same credentials, or both refuse.

Each case is tried with kubectl itself, and with our client, on servers that record what they are asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from podwright.kube.client.api_client import ApiReader, connected
from podwright.kube.client.credentials.credentials import load
from podwright.kube.client.errors import ApiError, ConfigError, UnreachableError
from podwright.kube.client.http import Http
from support.http import kubeconfigs
from support.http.recording import Recorded, RecordingServers, create_certificates

KUBECTL_SECONDS = 60
ENVIRON = {"PATH": os.environ["PATH"]}


@dataclass(frozen=True)
class Seen:
    """The servers' and the plugin's records of one attempt. `request` is None if it was refused; `problem` says why."""

    request: Recorded | None
    told: object = None
    """The plugin's input, if it was run."""
    problem: str = ""


def exec_info(folder: Path) -> object:
    path = folder / "exec-info"
    return json.loads(path.read_text()) if path.exists() else None


async def by_kubectl(kubectl, folder, servers, listed, environ):
    process = await asyncio.create_subprocess_exec(
        kubectl,
        "get",
        "--raw=/probe",
        env={**ENVIRON, "HOME": str(folder), "KUBECONFIG": listed, **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(KUBECTL_SECONDS):
        _, errors = await process.communicate()
    if process.returncode:
        return Seen(None, problem=errors.decode()[:500])
    return Seen(servers.requests[0], exec_info(folder))


async def by_us(folder, servers, listed, environ, monkeypatch):
    """With short requests, with watches and with the kubernetes package, which must look the same."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("KUBE")]:
        monkeypatch.delenv(name)
    for name, value in {"KUBECONFIG": listed, "HOME": str(folder), **environ}.items():
        monkeypatch.setenv(name, value)
    http = None
    try:
        source = load(None, None, lambda: 1_800_000_000.0)
        http = Http(source)
        await http.call("GET", "/probe")
        async with http.stream("/probe", {}) as response:
            await response.read()
        with connected(source.load()) as client:
            await asyncio.to_thread(ApiReader(client).get, "/probe")
    except (ConfigError, UnreachableError, ApiError) as error:
        return Seen(None, problem=str(error))
    finally:
        if http is not None:
            await http.close()
        for name in environ:
            monkeypatch.delenv(name)
    short, watch, read_once = servers.requests
    assert short == watch == read_once
    return Seen(short, exec_info(folder))


async def compare(case, kubectl, template, folder, monkeypatch):
    """Returns the differences in a case; empty without any."""
    found = []
    for who in ("kubectl", "we"):
        place = folder / who
        await asyncio.to_thread(shutil.copytree, template, place)
        async with RecordingServers(template).running() as servers:
            names = {
                "FOLDER": str(place),
                "TLS_PORT": str(servers.secure_port),
                "TLS": f"127.0.0.1:{servers.secure_port}",
                "PLAIN": f"127.0.0.1:{servers.plain_port}",
                "PROXY_TLS": f"127.0.0.1:{servers.secure_proxy_port}",
                "PROXY": f"127.0.0.1:{servers.proxy_port}",
            }
            kubeconfigs.prepare(place)
            listed = kubeconfigs.write(case, place, names)
            environ = {key: kubeconfigs.resolved(value, names) for key, value in case.environ.items()}
            if who == "kubectl":
                seen = await by_kubectl(kubectl, place, servers, listed, environ)
            else:
                seen = await by_us(place, servers, listed, environ, monkeypatch)
        found.append((seen, general(seen.request, names), general(seen.told, names)))
    (theirs, their_request, they_told), (ours, our_request, we_told) = found
    if case.asks:
        right = theirs.request is None and ours.request is not None and not ours.request.headers
    elif case.stricter:
        right = theirs.request is not None and ours.request is None
    elif theirs.request is None or ours.request is None:
        right = theirs.request is None and ours.request is None and bool(ours.problem)
    else:
        # kubectl runs a plugin for a certificate even if it needs none.
        right = their_request == our_request and we_told in (they_told, "null")
    return "" if right else f"{case.name}:\n  kubectl: {found[0]}\n  we: {found[1]}"


def general(what, names):
    """Addresses and folders as the names that stand for them in the cases."""
    text = json.dumps(what, sort_keys=True, default=asdict)
    for name, value in names.items():
        text = text.replace(value, name)
    return text


@pytest.mark.slow
async def test_kubeconfigs_are_read_as_kubectl_reads_them(binaries, tmp_path, monkeypatch):
    template = tmp_path / "template"
    template.mkdir()
    await asyncio.to_thread(create_certificates, template)
    all_cases = kubeconfigs.cases(template)
    assert len(all_cases) > 200
    assert len({case.name for case in all_cases}) == len(all_cases)
    kubectl = binaries.path("kubectl")
    problems = []
    for number, case in enumerate(all_cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        problems.append(await compare(case, kubectl, template, folder, monkeypatch))
    assert not any(problems), "\n".join(filter(None, problems))
