"""Kubeconfigs and certificates, for tests of credentials."""

from __future__ import annotations

import base64
import shutil
import subprocess

import pytest
import yaml

from podwright.kube.client.credentials.credentials import load

PROXIES = [name for lower in ("http_proxy", "https_proxy", "no_proxy") for name in (lower, lower.upper())]
SERVER = "https://127.0.0.1:1"


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def kubeconfig(folder, user=None, cluster=None, name="config", context=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def no_credentials(monkeypatch, tmp_path):
    """No kubeconfig and no service account, unless a test creates them."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate and its key as PEM texts."""
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed to create a certificate"
    folder = tmp_path_factory.mktemp("certificate")
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return (folder / "cert.pem").read_text(), (folder / "key.pem").read_text()


async def current(path, clock=None, context=None):
    return await load(str(path), context, clock or Clock()).current()
