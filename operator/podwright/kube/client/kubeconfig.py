"""Kubeconfig files, read as kubectl reads them: several files are merged, the first entry wins, paths are relative to their file.

Reads one context, the current or a named one. Nothing is cached here: `credentials` decides when to read again.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import os
import subprocess
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from podwright.kube.client.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Issued:
    """The credentials that a plugin returned; `expires` in seconds since the epoch."""

    token: str | None
    certificate: str | None
    key: str | None
    expires: float | None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A credential plugin (`users[].user.exec`). Its protocol is client.authentication.k8s.io in the Kubernetes documentation."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    cluster: Mapping[str, Any] | None
    folder: Path
    install_hint: str = ""

    def run(self) -> Issued:
        """Runs the program and returns its credentials. Raises ConfigError."""
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environ = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        command = str(self.folder / self.command) if os.sep in self.command else self.command
        try:
            done = subprocess.run(  # noqa: S603 -- the kubeconfig's owner named the program
                [command, *self.args], env=environ, capture_output=True, text=True, timeout=60, check=False
            )
        except FileNotFoundError as error:
            raise ConfigError(f"credential plugin {command} was not found. {self.install_hint}".strip()) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"credential plugin {command}: {error}") from error
        if done.returncode:
            raise ConfigError(f"credential plugin {command} ended with {done.returncode}: {done.stderr.strip()[:500]}")
        return self._parse(done.stdout)

    def _parse(self, output: str) -> Issued:
        try:
            answer = json.loads(output)
            status = answer["status"]
            if answer["apiVersion"] != self.api_version:
                raise ConfigError(
                    f"credential plugin {self.command} returned {answer['apiVersion']}, not {self.api_version}"
                )
            expires = status.get("expirationTimestamp")
            issued = Issued(
                status.get("token"),
                status.get("clientCertificateData"),
                status.get("clientKeyData"),
                datetime.datetime.fromisoformat(expires).timestamp() if expires else None,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"credential plugin {self.command}: its output is not an ExecCredential") from error
        if not issued.token and not (issued.certificate and issued.key):
            raise ConfigError(
                f"credential plugin {self.command} returned neither a token nor a certificate with its key"
            )
        return issued


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """One resolved context. Certificates and keys are PEM text. No certificate authority: the system's are trusted."""

    server: str
    namespace: str
    certificate_authority: str | None
    insecure: bool
    proxy: str | None
    token: str | None = field(repr=False)
    token_file: Path | None
    client_certificate: str | None
    client_key: str | None = field(repr=False)
    authorization: str | None = field(repr=False)
    plugin: Plugin | None
    impersonation: tuple[tuple[str, str], ...]
    tls_server_name: str | None = None


def find_kubeconfig(given: str | None) -> list[Path]:
    """The files to read: the given one, else those of KUBECONFIG, else ~/.kube/config. Empty if none exists.

    Raises ConfigError if the given file does not exist.
    """
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise ConfigError(f"the kubeconfig {given} does not exist")
        return [path]
    listed = os.environ.get("KUBECONFIG")
    paths = [Path(p) for p in listed.split(os.pathsep) if p] if listed else [Path.home() / ".kube" / "config"]
    return [path for path in paths if path.is_file()]


def read_kubeconfig(paths: Sequence[Path], context: str | None = None) -> KubeConfig:
    """Reads the named context, or the current one. Raises ConfigError."""
    files = [(path.parent.absolute(), _read(path)) for path in paths]
    name = context or next((c for _, f in files if (c := f.get("current-context"))), None)
    if not name:
        raise ConfigError(f"no current context in {', '.join(map(str, paths))}")
    chosen, _ = _entry(files, "contexts", "context", name)
    cluster, cluster_folder = _entry(files, "clusters", "cluster", str(chosen.get("cluster") or ""))
    user_name = chosen.get("user")
    user, user_folder = _entry(files, "users", "user", str(user_name)) if user_name else ({}, Path())
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"cluster {chosen.get('cluster')!r}: server: {server!r} is not a URL")
    authority = _pem(cluster, "certificate-authority", cluster_folder)
    token_file = user.get("tokenFile")
    return KubeConfig(
        server=server,
        namespace=str(chosen.get("namespace") or "default"),
        certificate_authority=authority,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        proxy=cluster.get("proxy-url"),
        token=user.get("token"),
        token_file=user_folder / token_file if token_file else None,
        client_certificate=_pem(user, "client-certificate", user_folder),
        client_key=_pem(user, "client-key", user_folder),
        authorization=_authorization(files, name, user),
        plugin=_plugin(user, cluster, authority, user_folder),
        impersonation=_impersonation(user),
        tls_server_name=cluster.get("tls-server-name"),
    )


Files = Sequence[tuple[Path, Mapping[str, Any]]]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the kubeconfig {path}: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"the kubeconfig {path} is empty or not a mapping")
    return content


def _entry(files: Files, section: str, key: str, name: str) -> tuple[Mapping[str, Any], Path]:
    for folder, content in files:
        for item in content.get(section) or []:
            if isinstance(item, Mapping) and item.get("name") == name:
                return item.get(key) or {}, folder
    raise ConfigError(f"the kubeconfig has no entry {name!r} in {section}")


def _pem(entry: Mapping[str, Any], key: str, folder: Path) -> str | None:
    data, file = entry.get(f"{key}-data"), entry.get(key)
    try:
        if data:
            return base64.b64decode("".join(str(data).split()), validate=True).decode()
        if file:
            return (folder / str(file)).read_text()
    except OSError as error:
        raise ConfigError(f"{key}: cannot read {file}: {error.strerror}") from error
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}-data is not base64 of PEM text") from error
    return None


def _authorization(files: Files, context: str, user: Mapping[str, Any]) -> str | None:
    if user.get("username") and user.get("password"):
        pair = f"{user['username']}:{user['password']}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if "auth-provider" not in user:
        return None
    # The Kubernetes client knows how to refresh old OIDC and GCP entries. It is large, so it is imported here only.
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config.kube_config import KubeConfigLoader  # noqa: PLC0415

    merged = {"current-context": context} | {
        section: [item for _, content in files for item in content.get(section) or []]
        for section in ("contexts", "clusters", "users")
    }
    provider = user["auth-provider"]
    name = provider.get("name") if isinstance(provider, Mapping) else provider
    configuration = Configuration()
    loader: Any = KubeConfigLoader
    try:
        loader(merged, context, config_base_path=str(files[0][0])).load_and_set(configuration)
    except Exception as error:  # the client validates nothing, and each provider fails in its own way
        raise ConfigError(
            f"auth-provider {name!r} gave no token ({type(error).__name__}: {error}); use an exec plugin"
        ) from error
    value = configuration.api_key.get("BearerToken")
    if not value:
        raise ConfigError(f"auth-provider {name!r} gave no token; use an exec plugin")
    return str(value)


def _plugin(user: Mapping[str, Any], cluster: Mapping[str, Any], authority: str | None, folder: Path) -> Plugin | None:
    entry = user.get("exec")
    if not entry:
        return None
    if not entry.get("command") or not entry.get("apiVersion"):
        raise ConfigError("users[].user.exec: command and apiVersion are required")
    described = None
    if entry.get("provideClusterInfo"):
        described = {key: value for key, value in cluster.items() if key not in ("certificate-authority", "extensions")}
        if authority:
            described["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    return Plugin(
        command=str(entry["command"]),
        args=tuple(str(arg) for arg in entry.get("args") or ()),
        env={str(item["name"]): str(item["value"]) for item in entry.get("env") or ()},
        api_version=str(entry["apiVersion"]),
        cluster=described,
        folder=folder,
        install_hint=str(entry.get("installHint") or ""),
    )


def _impersonation(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.get("as"):
        headers.append(("Impersonate-User", str(user["as"])))
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{urllib.parse.quote(key, safe='')}", str(value)) for value in values]
    return tuple(headers)
