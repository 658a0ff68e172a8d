"""One kubeconfig file, with every field of the type that client-go's v1.Config gives it.

All entries are checked, also those that no context uses. A field of another type is a ConfigError that names the file
and the field: `insecure-skip-tls-verify: "false"` is not a boolean. Unknown fields are ignored. `kubeconfig` merges
files and resolves a context.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import yaml

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import json_type
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.errors import ConfigError

LONGEST_KUBECONFIG: Final = 1 << 24
"""Bytes."""

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that credential plugins are given."""


class _Loader(yaml.SafeLoader):
    """YAML as client-go reads it: dates are strings, and `y` and `n` are booleans."""

    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012 -- PyYAML's own attribute

    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own attribute
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))


@dataclass(frozen=True, slots=True)
class KubeconfigCluster:
    """An entry of `clusters`. `where` names it in errors; relative paths are relative to `folder`."""

    where: str
    folder: Path
    server: str = ""
    tls_server_name: str = ""
    insecure: bool = False
    authority: str = ""
    authority_data: bytes = b""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    exec_config: Any = None


@dataclass(frozen=True, slots=True)
class Exec:
    """`exec` of a user."""

    where: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    install_hint: str
    provide_cluster_info: bool
    interactive_mode: str


@dataclass(frozen=True, slots=True)
class KubeconfigUser:
    """An entry of `users`. `where` names it in errors; relative paths are relative to `folder`."""

    where: str
    folder: Path
    certificate: str = ""
    certificate_data: bytes = b""
    key: str = ""
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    username: str = ""
    password: str = field(default="", repr=False)
    auth_provider: bool = False
    exec: Exec | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """An entry of `contexts`."""

    where: str
    cluster: str
    user: str
    namespace: str


@dataclass(frozen=True, slots=True)
class KubeconfigFile:
    """A kubeconfig file; entries by their names."""

    path: Path
    current_context: str
    contexts: Mapping[str, Context]
    clusters: Mapping[str, KubeconfigCluster]
    users: Mapping[str, KubeconfigUser]


def read_file(path: Path) -> KubeconfigFile:
    """Raises ConfigError."""
    try:
        content = yaml.load(read_at_most(path, LONGEST_KUBECONFIG).decode(), _Loader)  # noqa: S506 -- a safe loader
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "strerror", None) or getattr(error, "problem", None) or type(error).__name__
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        # Not the error itself: it may quote a token.
        raise ConfigError(f"cannot read the kubeconfig {path}: {problem}{line}") from None
    where = f"kubeconfig {path}"
    root = _Fields({} if content is None else content, file=where, path="")
    if root.text("kind") not in ("", "Config") or root.text("apiVersion") not in ("", "v1"):
        raise ConfigError(f"{where}: kind and apiVersion are not those of a Config, v1")
    folder = path.parent.absolute()
    return KubeconfigFile(
        path=path,
        current_context=root.text("current-context"),
        contexts={name: _context(entry) for name, entry in root.named("contexts", "context")},
        clusters={name: _cluster(entry, folder) for name, entry in root.named("clusters", "cluster")},
        users={name: _user(entry, folder) for name, entry in root.named("users", "user")},
    )


def _context(entry: _Fields) -> Context:
    return Context(entry.where, entry.text("cluster"), entry.text("user"), entry.text("namespace"))


def _cluster(entry: _Fields, folder: Path) -> KubeconfigCluster:
    extensions = {extension.text("name"): extension.anything("extension") for extension in entry.entries("extensions")}
    return KubeconfigCluster(
        where=entry.where,
        folder=folder,
        server=entry.text("server"),
        tls_server_name=entry.text("tls-server-name"),
        insecure=entry.flag("insecure-skip-tls-verify"),
        authority=entry.text("certificate-authority"),
        authority_data=entry.data("certificate-authority-data"),
        proxy_url=entry.text("proxy-url"),
        disable_compression=entry.flag("disable-compression"),
        exec_config=extensions.get(EXEC_EXTENSION),
    )


def _user(entry: _Fields, folder: Path) -> KubeconfigUser:
    plugin, provider = entry.entry("exec"), entry.entry("auth-provider")
    return KubeconfigUser(
        where=entry.where,
        folder=folder,
        certificate=entry.text("client-certificate"),
        certificate_data=entry.data("client-certificate-data"),
        key=entry.text("client-key"),
        key_data=entry.data("client-key-data"),
        token=entry.text("token"),
        token_file=entry.text("tokenFile"),
        impersonate=entry.text("as"),
        impersonate_uid=entry.text("as-uid"),
        impersonate_groups=entry.texts("as-groups"),
        impersonate_extra=entry.lists("as-user-extra"),
        username=entry.text("username"),
        password=entry.text("password"),
        auth_provider=provider is not None,
        exec=None if plugin is None else _exec(plugin),
    )


def _exec(entry: _Fields) -> Exec:
    return Exec(
        where=entry.where,
        command=entry.text("command"),
        args=entry.texts("args"),
        env={variable.text("name"): variable.text("value") for variable in entry.entries("env")},
        api_version=entry.text("apiVersion"),
        install_hint=entry.text("installHint"),
        provide_cluster_info=entry.flag("provideClusterInfo"),
        interactive_mode=entry.text("interactiveMode"),
    )


class _Fields:
    """A mapping whose fields are read with their types; null is the same as absent. Raises ConfigError."""

    def __init__(self, raw: object, *, file: str, path: str) -> None:
        self._file = file
        self._path = path
        if not isinstance(raw, Mapping):
            raise ConfigError(f"{self.where}: is {_type(raw)}, not a mapping")
        self._raw = raw

    @property
    def where(self) -> str:
        return f"{self._file}: {self._path}" if self._path else self._file

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _get(self, key: str, kind: type, wanted: str) -> Any:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{self._file}: {self._at(key)}: is {_type(value)}, not {wanted}")
        return value

    def anything(self, key: str) -> Any:
        return self._raw.get(key)

    def text(self, key: str) -> str:
        return self._get(key, str, "a string") or ""

    def flag(self, key: str) -> bool:
        return bool(self._get(key, bool, "true or false"))

    def data(self, key: str) -> bytes:
        """Base64, with line breaks as the only other characters, as Go's encoding/json reads it."""
        text = self.text(key)
        try:
            return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{self._file}: {self._at(key)}: is not base64") from None

    def texts(self, key: str) -> tuple[str, ...]:
        return _texts(self._get(key, list, "a list"), self._file, self._at(key))

    def lists(self, key: str) -> Mapping[str, tuple[str, ...]]:
        raw = self._get(key, dict, "a mapping") or {}
        return {str(name): _texts(values, self._file, f"{self._at(key)}.{name}") for name, values in raw.items()}

    def entry(self, key: str) -> _Fields | None:
        raw = self._raw.get(key)
        return None if raw is None else _Fields(raw, file=self._file, path=self._at(key))

    def entries(self, key: str) -> Iterator[_Fields]:
        for number, raw in enumerate(self._get(key, list, "a list") or ()):
            yield _Fields({} if raw is None else raw, file=self._file, path=f"{self._at(key)}[{number}]")

    def named(self, section: str, key: str) -> Iterator[tuple[str, _Fields]]:
        """The entries of a section with their names. Raises ConfigError for a name that repeats."""
        names: set[str] = set()
        for item in self.entries(section):
            name = item.text("name")
            if name in names:
                raise ConfigError(f"{self._file}: {section}: has two entries named {name!r}")
            names.add(name)
            yield (
                name,
                _Fields(
                    {} if (raw := item.anything(key)) is None else raw, file=self._file, path=f"{section}[{name}].{key}"
                ),
            )


def _texts(values: object, file: str, path: str) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list):
        raise ConfigError(f"{file}: {path}: is {_type(values)}, not a list")
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise ConfigError(f"{file}: {path}[{number}]: is {_type(value)}, not a string")
    return tuple(values)


def _type(value: object) -> str:
    return "a mapping" if isinstance(value, dict) else json_type(value)  # YAML's word
