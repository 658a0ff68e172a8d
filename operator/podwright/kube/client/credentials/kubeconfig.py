"""Kubeconfigs as kubectl reads them: several files are merged, the first entry of a name wins, paths are relative to
their file.

Reads one context, the current or a named one, and checks it as client-go does (tools/clientcmd/validation.go). Where
client-go would ask the user, use its own defaults or run an in-process provider, this is a ConfigError. Nothing is
cached here: `credentials` decides when to read again. `kubeconfig_file` has the fields and their types.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from podwright.core.objects.dataclass import dataclass
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.credentials.exec_plugin import VERSIONS, ExecPlugin
from podwright.kube.client.credentials.kubeconfig_file import (
    Exec,
    KubeconfigCluster,
    KubeconfigFile,
    KubeconfigUser,
    read_file,
)
from podwright.kube.client.credentials.proxies import check_proxy
from podwright.kube.client.errors import ConfigError

T = TypeVar("T")

_EXTRA_KEY: Final = re.compile(rb"[^!#$&'*+\-.^_`|~0-9A-Za-z]")
"""Bytes that are escaped in the name of a header for impersonation."""


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """One resolved context. Certificates and keys are PEM text. No certificate authority: the system's are trusted.

    `server` has no user and no query. `authorization` is a header's value. `cluster_where` and `user_where` name the
    entries in errors.
    """

    server: str
    namespace: str
    cluster_where: str
    user_where: str
    certificate_authority: str | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    client_certificate: str | None = None
    client_key: str | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


def find_kubeconfig(given: str | None) -> list[Path]:
    """The files to read: the given one, else those of KUBECONFIG, else ~/.kube/config. Empty if none exists.

    Raises ConfigError if the given one is not a file.
    """
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            problem = "is not a file" if path.exists() else "does not exist"
            raise ConfigError(f"the kubeconfig {given} {problem}")
        return [path]
    listed = os.environ.get("KUBECONFIG")
    paths = [Path(p) for p in listed.split(os.pathsep) if p] if listed else [Path.home() / ".kube" / "config"]
    return [path for path in paths if path.exists()]


def read_kubeconfig(paths: Sequence[Path], context: str | None = None, server: str | None = None) -> KubeConfig:
    """Reads the named context, or the current one. `server`: the URL that replaces its server's. Raises ConfigError."""
    files = [read_file(path) for path in paths]
    name = context or next((file.current_context for file in files if file.current_context), None)
    listed = ", ".join(map(str, paths))
    if not name:
        raise ConfigError(f"kubeconfig {listed}: current-context: is not set")
    chosen = _entry(files, lambda file: file.contexts, name, f"kubeconfig {listed}: contexts")
    if not chosen.cluster:
        raise ConfigError(f"{chosen.where}.cluster: is not set")
    cluster = _entry(files, lambda file: file.clusters, chosen.cluster, f"{chosen.where}.cluster")
    if server:
        cluster = replace(cluster, server=server, tls_server_name="")
    user = KubeconfigUser(where=chosen.where, folder=Path())
    if chosen.user:
        user = _entry(files, lambda file: file.users, chosen.user, f"{chosen.where}.user")
    server, user_info = _server(cluster)
    authority = _authority(cluster)
    proxy = check_proxy(cluster.proxy_url, f"{cluster.where}.proxy-url") if cluster.proxy_url else None
    _check_user(user)
    certificate, key = _client_certificate(user)
    plugin = None if user.exec is None else _plugin(user, user.exec, cluster, authority)
    secure = server.startswith("https://")
    # client-go authenticates over TLS only. The user in a URL is added by Go's HTTP client, before any other
    # credentials.
    authenticated = secure and user_info is None
    return KubeConfig(
        server=server,
        namespace=chosen.namespace or "default",
        cluster_where=cluster.where,
        user_where=user.where,
        certificate_authority=authority,
        insecure=cluster.insecure,
        tls_server_name=cluster.tls_server_name or None,
        proxy=proxy,
        token=(user.token or None) if authenticated else None,
        token_file=user.folder / user.token_file if authenticated and user.token_file else None,
        client_certificate=certificate if secure else None,
        client_key=key if secure else None,
        authorization=user_info or (_basic(user.username, user.password) if authenticated and user.username else None),
        plugin=plugin if authenticated else None,
        impersonation=_impersonation(user),
    )


def _entry(
    files: Sequence[KubeconfigFile], section: Callable[[KubeconfigFile], Mapping[str, T]], name: str, where: str
) -> T:
    for file in files:
        if (found := section(file).get(name)) is not None:
            return found
    raise ConfigError(f"{where}: there is no entry {name!r}")


# The cluster


def _server(cluster: KubeconfigCluster) -> tuple[str, str | None]:
    """The server's URL without user and query, and the header that the user stands for. HTTP is the default scheme."""
    where = f"{cluster.where}.server"
    if not cluster.server:
        raise ConfigError(f"{where}: is not set")
    text = cluster.server if "://" in cluster.server else f"http://{cluster.server}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{where}: is not a URL") from None
    sound = text.isprintable() and not {" ", "#"} & set(text)
    if parts.scheme not in ("http", "https") or not host or port == 0 or not sound:
        raise ConfigError(f"{where}: is not the URL of an HTTP server")
    if "://" not in cluster.server and parts.path not in ("", "/"):
        raise ConfigError(f"{where}: a path needs a URL with its scheme")
    user_info, _, address = parts.netloc.rpartition("@")
    name, _, password = user_info.partition(":")
    authorization = _basic(unquote(name), unquote(password)) if user_info else None
    return urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", "")), authorization


def _authority(cluster: KubeconfigCluster) -> str | None:
    both = bool(cluster.authority) and bool(cluster.authority_data)
    if both:
        raise ConfigError(f"{cluster.where}: certificate-authority and certificate-authority-data are both set")
    pem = _pem(cluster.where, "certificate-authority", cluster.folder, cluster.authority, cluster.authority_data)
    if pem is not None and cluster.insecure and cluster.server.startswith("https://"):
        raise ConfigError(f"{cluster.where}: insecure-skip-tls-verify and certificate-authority exclude each other")
    return pem


def _pem(where: str, key: str, folder: Path, file: str, data: bytes) -> str | None:
    try:
        if data:
            return data.decode()
        return read_at_most(folder / file).decode() if file else None
    except OSError as error:
        raise ConfigError(f"{where}.{key}: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{where}.{key}{'-data' if data else ''}: is not PEM text") from None


# The user


def _check_user(user: KubeconfigUser) -> None:
    if user.auth_provider:
        raise ConfigError(f"{user.where}.auth-provider: is not supported; use an exec plugin")
    if user.token and (user.username or user.password):
        raise ConfigError(f"{user.where}: token and username are both set")
    if user.token_file and user.username:
        raise ConfigError(f"{user.where}: tokenFile and username are both set")
    if user.password and not user.username:
        raise ConfigError(f"{user.where}.password: has no username")
    if (user.impersonate_uid or user.impersonate_groups or user.impersonate_extra) and not user.impersonate:
        raise ConfigError(f"{user.where}.as: is not set, but as-uid, as-groups or as-user-extra is")


def _client_certificate(user: KubeconfigUser) -> tuple[str | None, str | None]:
    """Certificate and key. A key alone has no effect."""
    if not user.certificate and not user.certificate_data:
        return None, None
    for key, file, data in (
        ("client-certificate", user.certificate, user.certificate_data),
        ("client-key", user.key, user.key_data),
    ):
        if file and data:
            raise ConfigError(f"{user.where}: {key} and {key}-data are both set")
        if not file and not data:
            raise ConfigError(f"{user.where}.{key}: is not set, but the certificate is")
    return (
        _pem(user.where, "client-certificate", user.folder, user.certificate, user.certificate_data),
        _pem(user.where, "client-key", user.folder, user.key, user.key_data),
    )


def _basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _plugin(user: KubeconfigUser, entry: Exec, cluster: KubeconfigCluster, authority: str | None) -> ExecPlugin | None:
    """The credential plugin; None if other credentials come before it."""
    if not entry.command:
        raise ConfigError(f"{entry.where}.command: is not set")
    if entry.api_version not in VERSIONS:
        raise ConfigError(f"{entry.where}.apiVersion: {entry.api_version!r} is not one of {', '.join(VERSIONS)}")
    if "" in entry.env:
        raise ConfigError(f"{entry.where}.env: a variable has no name")
    mode = entry.interactive_mode or ("IfAvailable" if entry.api_version.endswith("/v1beta1") else "")
    if mode == "Always":
        raise ConfigError(f"{entry.where}.interactiveMode: Always needs a terminal, which Podwright has not")
    if mode not in ("Never", "IfAvailable"):
        raise ConfigError(f"{entry.where}.interactiveMode: {mode!r} is not one of Never, IfAvailable, Always")
    if user.token or user.token_file or user.username or user.certificate or user.certificate_data:
        return None
    command = str(user.folder / entry.command) if os.sep in entry.command else entry.command
    return ExecPlugin(
        command=command,
        args=entry.args,
        env=entry.env,
        api_version=entry.api_version,
        cluster=_described(cluster, authority) if entry.provide_cluster_info else None,
        where=entry.where,
        install_hint=entry.install_hint,
    )


def _described(cluster: KubeconfigCluster, authority: str | None) -> Mapping[str, Any]:
    """The data about the cluster that a plugin gets (client.authentication.k8s.io, Cluster)."""
    fields = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure,
        "certificate-authority-data": base64.b64encode((authority or "").encode()).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {key: value for key, value in fields.items() if value} | {"config": cluster.exec_config}


def _impersonation(user: KubeconfigUser) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.impersonate:
        headers.append(("Impersonate-User", user.impersonate))
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    for key, values in user.impersonate_extra.items():
        escaped = _EXTRA_KEY.sub(lambda found: b"%%%02X" % found[0][0], key.encode()).decode()
        headers += [(f"Impersonate-Extra-{escaped}", value) for value in values]
    return tuple(headers)
