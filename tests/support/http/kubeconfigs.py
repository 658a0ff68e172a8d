"""More than 200 kubeconfigs, for a comparison with kubectl: credentials, servers, proxies, plugins, several files, and
nonsense.

Each case is written by `write` into a folder with certificates, tokens and plugins (`prepare`). `{TLS}`, `{PLAIN}`,
`{PROXY}` and `{PROXY_TLS}` in it stand for the addresses of the recording servers, `{FOLDER}` for the folder.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CA = "certificate-authority"
CERTIFICATE, KEY = "client-certificate", "client-key"
PAIR = {CERTIFICATE: "client.crt", KEY: "client.key"}
EXTENSION = "client.authentication.k8s.io/exec"
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


@dataclass(frozen=True)
class Case:
    """`files`: name to content, an object or text. `kubeconfig`: the files that KUBECONFIG lists.

    `stricter`: why we refuse what kubectl takes. `asks`: kubectl would ask the user for a name, and we are anonymous
    instead.
    """

    name: str
    files: Mapping[str, Any]
    kubeconfig: Sequence[str] = ("config",)
    environ: Mapping[str, str] = field(default_factory=dict)
    stricter: str = ""
    asks: bool = False


def config(
    user: Any = None, cluster: Any = None, context: Any = None, base: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig of one context. `cluster` is added to `base`, by default the server with TLS and its CA."""
    base = {"server": "https://{TLS}", CA: "ca.crt"} if base is None else base
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {**base, **(cluster or {})}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "t"}}],
        **more,
    }


def plugin(name: str, version: str = V1, **entry: Any) -> dict[str, Any]:
    mode = {"interactiveMode": "Never"} if version == V1 else {}
    return {"exec": {"apiVersion": version, "command": f"./plugins/{name}", **mode, **entry}}


def _issued(version: str = V1, **status: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def _plugins(folder: Path) -> dict[str, Any]:
    """The output of each plugin."""
    pem = {name: (folder / f"{name}").read_text() for name in ("client.crt", "client.key")}
    return {
        "token": _issued(token="issued"),
        "token-v1beta1": _issued(V1BETA1, token="issued"),
        "certificate": _issued(clientCertificateData=pem["client.crt"], clientKeyData=pem["client.key"]),
        "both": _issued(token="issued", clientCertificateData=pem["client.crt"], clientKeyData=pem["client.key"]),
        "certificate-only": _issued(clientCertificateData=pem["client.crt"]),
        "key-only": _issued(clientKeyData=pem["client.key"]),
        "token-and-key": _issued(token="issued", clientKeyData=pem["client.key"]),
        "nonsense-certificate": _issued(clientCertificateData="x", clientKeyData="y"),
        "expired": _issued(token="issued", expirationTimestamp="2020-01-01T00:00:00Z"),
        "expires-soon": _issued(token="issued", expirationTimestamp="soon"),
        "expires-without-zone": _issued(token="issued", expirationTimestamp="2030-01-01T00:00:00"),
        "expires-number": _issued(token="issued", expirationTimestamp=5),
        "no-status": {"apiVersion": V1, "kind": "ExecCredential"},
        "empty-status": _issued(),
        "number": _issued(token=5),
        "another-version": _issued(V1BETA1, token="issued"),
        "another-kind": {**_issued(token="issued"), "kind": "Pod"},
        "text": "issued",
        "list": [1],
        "nothing": "",
        "line-break": _issued(token="a\nb"),
    }


def prepare(folder: Path) -> None:
    """Writes what the kubeconfigs refer to. Certificates must be there."""
    for name, text in {
        "token": "from-file\n",
        "spaces": "  from-file \n\n",
        "empty": "",
        "blank": " \n",
        "binary": "\xff",
        "nonsense.crt": "no certificate",
    }.items():
        (folder / name).write_bytes(text.encode("latin-1"))
    (folder / "bundle.crt").write_text((folder / "other-ca.crt").read_text() + (folder / "ca.crt").read_text())
    (folder / "plugins").mkdir()
    scripts = {
        name: f"cat <<'END'\n{printed if isinstance(printed, str) else json.dumps(printed)}\nEND\n"
        for name, printed in _plugins(folder).items()
    }
    scripts["fails"] = scripts["token"] + "exit 3\n"
    credential = '{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"%s-%s"}}'
    scripts["environ"] = f'printf \'{credential}\' {V1} "$GIVEN" "$1"\n'
    for name, script in scripts.items():
        path = folder / "plugins" / name
        path.write_text(f'#!/bin/sh\nprintf %s "$KUBERNETES_EXEC_INFO" > {folder}/exec-info\n{script}')
        path.chmod(0o700)


def write(case: Case, folder: Path, names: Mapping[str, str]) -> str:
    """Writes the case's files and returns the value of KUBECONFIG."""
    for file, content in case.files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(resolved(content if isinstance(content, str) else yaml.safe_dump(content), names))
    return ":".join(str(folder / name) for name in case.kubeconfig)


def resolved(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def data_of(folder: Path, name: str) -> str:
    return base64.b64encode((folder / name).read_bytes()).decode()


def cases(folder: Path) -> list[Case]:
    """All cases. The folder needs the certificates only, whose data some cases have inline."""
    return [
        *_tokens(),
        *_names(),
        *_certificates(folder),
        *_authorities(folder),
        *_servers(),
        *_proxies(),
        *_impersonations(),
        *_execs(),
        *_files(),
        *_types(),
    ]


def _of_users(kind: str, users: Mapping[str, Any], **options: Any) -> list[Case]:
    return [Case(f"{kind}: {name}", {"config": config(user)}, **options) for name, user in users.items()]


def _tokens() -> list[Case]:
    users: dict[str, Any] = {
        "inline": {"token": "t"},
        "in a relative file": {"tokenFile": "token"},
        "in an absolute file": {"tokenFile": "{FOLDER}/token"},
        "in a file with spaces": {"tokenFile": "spaces"},
        "in a file and inline": {"tokenFile": "token", "token": "t"},
        "in a missing file and inline": {"tokenFile": "missing", "token": "t"},
        "in an empty file and inline": {"tokenFile": "empty", "token": "t"},
        "in a missing file": {"tokenFile": "missing"},
        "in a blank file": {"tokenFile": "blank"},
        "in a folder": {"tokenFile": "plugins"},
        "with a line break": {"token": "a\nb"},
        "with spaces inside": {"token": "a b"},
        "in Unicode": {"token": "tökén"},
        "that looks like a date": {"token": "2026-01-01"},
        "and a user name": {"token": "t", "username": "jane", "password": "p"},
        "and a password": {"token": "t", "password": "p"},
        "and a certificate": {"token": "t", **PAIR},
        "in a file, and a user name": {"tokenFile": "token", "username": "jane"},
        "and an auth-provider": {"token": "t", "auth-provider": {"name": "gcp"}},
    }
    return _of_users("a token", users)


def _names() -> list[Case]:
    users: dict[str, Any] = {
        "and a password": {"username": "jane", "password": "s:ecret"},
        "alone": {"username": "jane"},
        "in Unicode": {"username": "jäne", "password": "ö"},
        "and a certificate": {"username": "jane", "password": "p", **PAIR},
        "and a number as password": {"username": "jane", "password": 5},
    }
    return [
        *_of_users("a user name", users),
        *_of_users(
            "an auth-provider", {name: {"auth-provider": {"name": name}} for name in ("gcp", "azure", "unknown")}
        ),
        Case("nobody", {"config": config({})}, asks=True),
        Case("a password alone", {"config": config({"password": "p"})}),
    ]


def _certificates(folder: Path) -> list[Case]:
    certificate, key = data_of(folder, "client.crt"), data_of(folder, "client.key")
    folded = "\n".join(certificate[at : at + 64] for at in range(0, len(certificate), 64))
    users: dict[str, Any] = {
        "in relative files": PAIR,
        "in absolute files": {CERTIFICATE: "{FOLDER}/client.crt", KEY: "{FOLDER}/client.key"},
        "inline": {f"{CERTIFICATE}-data": certificate, f"{KEY}-data": key},
        "inline, folded": {f"{CERTIFICATE}-data": folded, f"{KEY}-data": key},
        "inline, its key in a file": {f"{CERTIFICATE}-data": certificate, KEY: "client.key"},
        "in a file and inline": {**PAIR, f"{CERTIFICATE}-data": certificate},
        "whose key is in a file and inline": {**PAIR, f"{KEY}-data": key},
        "without a key": {CERTIFICATE: "client.crt"},
        "with another's key": {CERTIFICATE: "client.crt", KEY: "other-client.key"},
        "in a missing file": {CERTIFICATE: "missing", KEY: "client.key"},
        "with its key in a missing file": {CERTIFICATE: "client.crt", KEY: "missing"},
        "that is none": {CERTIFICATE: "nonsense.crt", KEY: "client.key"},
        "that is not base64": {f"{CERTIFICATE}-data": "%", f"{KEY}-data": key},
        "that is base64 without padding": {f"{CERTIFICATE}-data": "eHh4eA=", f"{KEY}-data": key},
    }
    return [
        *_of_users("a certificate", users),
        Case("a key alone", {"config": config({KEY: "client.key", "token": "t"})}),
    ]


def _authorities(folder: Path) -> list[Case]:
    data = data_of(folder, "ca.crt")
    clusters: dict[str, Any] = {
        "in an absolute file": {CA: "{FOLDER}/ca.crt"},
        "inline": {CA: None, f"{CA}-data": data},
        "in a file and inline": {f"{CA}-data": data},
        "in a bundle": {CA: "bundle.crt"},
        "of others": {CA: "other-ca.crt"},
        "in a missing file": {CA: "missing"},
        "that is none": {CA: "nonsense.crt"},
        "that is empty": {CA: "empty"},
        "that is not base64": {CA: None, f"{CA}-data": "%"},
        "not given": {CA: None},
        "not given, insecure": {CA: None, "insecure-skip-tls-verify": True},
        "not given, insecure: yes": {CA: None, "insecure-skip-tls-verify": True, "tls-server-name": "another"},
        "and insecure": {"insecure-skip-tls-verify": True},
        "and not insecure": {"insecure-skip-tls-verify": False},
        "and insecure: null": {"insecure-skip-tls-verify": None},
        "and the right TLS server name": {"tls-server-name": "api.test"},
        "and a wrong TLS server name": {"tls-server-name": "another"},
    }
    return [Case(f"an authority {name}", {"config": config(cluster=cluster)}) for name, cluster in clusters.items()]


def _servers() -> list[Case]:
    servers = {
        "by name": "https://localhost:{TLS_PORT}",
        "with a slash": "https://{TLS}/",
        "with a path": "https://{TLS}/a/b",
        "with a path and a slash": "https://{TLS}/a/b/",
        "with an escaped path": "https://{TLS}/a%20b",
        "with a query": "https://{TLS}/a?x=1",
        "in capitals": "HTTPS://{TLS}",
        "without a scheme": "{PLAIN}",
        "without a scheme, with a path": "{PLAIN}/a",
        "plain": "http://{PLAIN}",
        "plain with a user": "http://jane:secret@{PLAIN}",
        "with a user": "https://jane:s%40cret@{TLS}",
        "with a user without a password": "https://jane@{TLS}",
        "empty": "",
        "null": None,
        "by FTP": "ftp://{TLS}",
        "with a port of letters": "https://127.0.0.1:x",
        "without a host": "https://",
        "with a line break": "https://{TLS}\nx",
    }
    rows = [
        Case(f"a server {name}", {"config": config(cluster={"server": server})}) for name, server in servers.items()
    ]
    plain: Mapping[str, Any] = {"server": "http://{PLAIN}"}
    users: dict[str, Any] = {
        "user name": {"username": "jane", "password": "p"},
        "token file": {"tokenFile": "token"},
        "plugin": plugin("token"),
        "certificate": PAIR,
        "impersonation": {"token": "t", "as": "joe"},
    }
    rows += [Case(f"a plain server and a {name}", {"config": config(user, base=plain)}) for name, user in users.items()]
    with_user = {"server": "https://jane:secret@{TLS}"}
    return [
        *rows,
        Case(
            "a plain server, insecure, with an authority",
            {"config": config(cluster={**plain, "insecure-skip-tls-verify": True})},
        ),
        Case(
            "a server with a fragment",
            {"config": config(cluster={"server": "https://{TLS}/a#x"})},
            stricter="kubectl takes it for a part of the path",
        ),
        Case(
            "a server with spaces",
            {"config": config(cluster={"server": "https://{TLS}/a b "})},
            stricter="kubectl escapes them, also those at the end",
        ),
        Case("a server with a user, and a plugin", {"config": config(plugin("token"), with_user)}),
        Case("a server with a user, and a certificate", {"config": config(PAIR, with_user)}),
    ]


def _proxies() -> list[Case]:
    remote = {"server": "https://api.test:6443"}
    plain = {"server": "http://api.test:8080"}
    clusters: dict[str, Any] = {
        "to TLS": {**remote, "proxy-url": "http://{PROXY}"},
        "to a plain server": {**plain, "proxy-url": "http://{PROXY}"},
        "to loopback": {"proxy-url": "http://{PROXY}"},
        "with a user": {**remote, "proxy-url": "http://jane:s%40cret@{PROXY}"},
        "with a user, to a plain server": {**plain, "proxy-url": "http://jane:s%40cret@{PROXY}"},
        "with TLS": {**remote, "proxy-url": "https://{PROXY_TLS}"},
        "without a scheme": {**remote, "proxy-url": "{PROXY}"},
        "by FTP": {**remote, "proxy-url": "ftp://{PROXY}"},
        "that is a number": {**remote, "proxy-url": 5},
        "and a TLS server name": {
            "server": "https://elsewhere:1",
            "tls-server-name": "api.test",
            "proxy-url": "http://{PROXY}",
        },
    }
    rows = [Case(f"a proxy {name}", {"config": config(cluster=cluster)}) for name, cluster in clusters.items()]
    https, http = {"HTTPS_PROXY": "http://{PROXY}"}, {"HTTP_PROXY": "http://{PROXY}"}
    environs: dict[str, tuple[Any, Mapping[str, str]]] = {
        "for TLS": (remote, https),
        "for TLS in lower case": (remote, {"https_proxy": "http://{PROXY}"}),
        "for TLS without a scheme": (remote, {"HTTPS_PROXY": "{PROXY}"}),
        "for TLS, to a plain server": ({"server": "http://{PLAIN}"}, https),
        "for plain HTTP": (plain, http),
        "for plain HTTP, to TLS": ({}, http),
        "but loopback": ({}, https),
        "but localhost": ({"server": "https://localhost:{TLS_PORT}"}, https),
        "but the named": (remote, {**https, "NO_PROXY": "api.test"}),
        "but the domain": (remote, {**https, "no_proxy": ".test"}),
        "but another port": (remote, {**https, "NO_PROXY": "api.test:443"}),
        "but subdomains": (remote, {**https, "NO_PROXY": ".api.test"}),
        "but all": (remote, {**https, "NO_PROXY": "*"}),
        "and proxy-url": (
            {**remote, "proxy-url": "http://{PROXY}"},
            {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "*"},
        ),
    }
    rows += [
        Case(f"the environment's proxy {name}", {"config": config(cluster=cluster)}, environ=environ)
        for name, (cluster, environ) in environs.items()
    ]
    return rows


def _impersonations() -> list[Case]:
    users: dict[str, Any] = {
        "of a user": {"as": "joe"},
        "of groups": {"as": "joe", "as-groups": ["dev", "ops"]},
        "of a uid": {"as": "joe", "as-uid": "1234"},
        "with extras": {"as": "joe", "as-user-extra": {"scopes": ["a", "b"], "example.com/x y": ["c"], "pct%": ["d"]}},
        "of nobody": {"as": ""},
        "of groups of nobody": {"as-groups": ["dev"]},
        "of a uid of nobody": {"as-uid": "5"},
        "with a line break": {"as": "a\r\nb"},
    }
    return _of_users("impersonation", {name: {"token": "t", **user} for name, user in users.items()})


def _execs() -> list[Case]:
    names = [
        "token", "certificate", "both", "certificate-only", "key-only", "token-and-key", "nonsense-certificate", "expired",
        "expires-soon", "expires-without-zone", "expires-number", "no-status", "empty-status", "number", "another-version",
        "another-kind", "text", "list", "nothing", "line-break", "fails", "missing",
    ]  # fmt: skip
    users: dict[str, Any] = {f"that prints {name}": plugin(name) for name in names}
    told = {"provideClusterInfo": True}
    users |= {
        "of v1beta1": plugin("token-v1beta1", V1BETA1),
        "of v1alpha1": plugin("token", "client.authentication.k8s.io/v1alpha1", interactiveMode="Never"),
        "without a version": plugin("token", "", interactiveMode="Never"),
        "without a mode": plugin("token", interactiveMode=None),
        "that may ask": plugin("token", interactiveMode="IfAvailable"),
        "that must ask": plugin("token", interactiveMode="Always"),
        "with an unknown mode": plugin("token", interactiveMode="Sometimes"),
        "without a command": plugin("token", command=""),
        "in PATH": plugin("", command="sh", args=["-c", "{FOLDER}/plugins/token"]),
        "in an absolute path": plugin("", command="{FOLDER}/plugins/token"),
        "with an environment and arguments": plugin("environ", env=[{"name": "GIVEN", "value": "x"}], args=["z"]),
        "with arguments that YAML 1.1 takes for booleans": plugin("environ", args=["y"]),
        "with a nameless variable": plugin("token", env=[{"name": "", "value": "x"}]),
        "that is told of the cluster": plugin("token", **told),
        "and a token": {**plugin("token"), "token": "t"},
        "and a token file": {**plugin("token"), "tokenFile": "token"},
        "and a user name": {**plugin("token"), "username": "jane"},
        "and a certificate": {**plugin("token"), **PAIR},
        "and an auth-provider": {**plugin("token"), "auth-provider": {"name": "gcp"}},
        "and impersonation": {**plugin("token"), "as": "joe"},
    }
    described = {
        "tls-server-name": "api.test",
        "proxy-url": "http://{PROXY}",
        "disable-compression": True,
        "extensions": [{"name": EXTENSION, "extension": {"audience": "x"}}, {"name": "other", "extension": {"a": 1}}],
    }
    return [
        *_of_users("a plugin", users),
        Case("a plugin that is told of a proxy and more", {"config": config(plugin("token", **told), described)}),
        Case(
            "a plugin that is told of an insecure cluster",
            {"config": config(plugin("token", **told), {CA: None, "insecure-skip-tls-verify": True})},
        ),
    ]


def _files() -> list[Case]:
    one, two = config({"token": "one"}), config({"token": "two"}, {"server": "https://{TLS}/two"})
    users = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "u", "user": {"tokenFile": "../token"}}]}
    without = {key: value for key, value in config().items() if key != "users"}
    twice = config()
    return [
        Case("two files with the same entries", {"a": one, "b": two}, ["a", "b"]),
        Case("two files in the other order", {"a": one, "b": two}, ["b", "a"]),
        Case("a missing file first", {"b": two}, ["missing", "b"]),
        Case("an empty file first", {"a": "", "b": two}, ["a", "b"]),
        Case("a malformed file first", {"a": "{", "b": two}, ["a", "b"]),
        Case("a malformed file last", {"a": one, "b": "clusters: 5"}, ["a", "b"]),
        Case("users in a file in another folder", {"a": without, "folder/b": users}, ["a", "folder/b"]),
        Case("the current context in the second file", {"a": {**one, "current-context": ""}, "b": two}, ["a", "b"]),
        Case("another context in the second file", {"a": one, "b": {**two, "current-context": "there"}}, ["a", "b"]),
        Case("no current context", {"config": config(**{"current-context": ""})}),
        Case("an unknown context", {"config": config(**{"current-context": "there"})}),
        Case("an unknown cluster", {"config": config(context={"cluster": "there"})}),
        Case("no cluster", {"config": config(context={"cluster": ""})}),
        Case("an unknown user", {"config": config(context={"user": "there"})}),
        Case("no user", {"config": config(context={"user": ""})}, asks=True),
        Case("two clusters of one name", {"config": {**twice, "clusters": twice["clusters"] * 2}}),
        Case("two users of one name", {"config": {**twice, "users": twice["users"] * 2}}),
        Case("two contexts of one name", {"config": {**twice, "contexts": twice["contexts"] * 2}}),
        Case("JSON", {"config": json.dumps(config())}),
        Case("no kind and no version", {"config": config(kind=None, apiVersion=None)}),
        Case("another kind", {"config": config(kind="Pod")}),
        Case("another version", {"config": config(apiVersion="v2")}),
        Case("unknown fields", {"config": config({"token": "t", "unknown": 5}, {"unknown": []}, unknown={"a": 1})}),
        Case("a list", {"config": "[1]"}),
        Case("a text", {"config": "text"}),
        Case("nothing", {"config": ""}),
        Case("a tab", {"config": "\tx: 1"}),
    ]


def _types() -> list[Case]:
    rows = []
    for value, name in ((5, "a number"), (True, "a boolean"), ([], "a list"), ({}, "a mapping")):
        rows += [
            Case(f"{name} as token", {"config": config({"token": value})}),
            Case(f"{name} as server", {"config": config(cluster={"server": value})}),
            Case(f"{name} as user", {"config": config(context={"user": value})}),
        ]
    for flag in ("true", "false", "", 0, 1, []):
        rows.append(
            Case(f"insecure: {flag!r}", {"config": config(cluster={CA: None, "insecure-skip-tls-verify": flag})})
        )
    sections: dict[str, Any] = {
        "a mapping of clusters": {"clusters": {}},
        "a text as users": {"users": "x"},
        "a number among contexts": {"contexts": [5]},
        "a number as current context": {"current-context": 5},
    }
    rows += [Case(name, {"config": config(**section)}) for name, section in sections.items()]
    users: dict[str, Any] = {
        "null as token": {"token": None, "tokenFile": "token"},
        "a text as groups": {"token": "t", "as": "joe", "as-groups": "dev"},
        "a number among groups": {"token": "t", "as": "joe", "as-groups": [5]},
        "a text as extras": {"token": "t", "as": "joe", "as-user-extra": "x"},
        "a text as an extra": {"token": "t", "as": "joe", "as-user-extra": {"a": "x"}},
        "a text as exec": {"exec": "x"},
        "a text as arguments": plugin("token", args="x"),
        "a number among arguments": plugin("token", args=[5]),
        "a mapping as environment": plugin("token", env={"A": "b"}),
        "a number in the environment": plugin("token", env=[{"name": "A", "value": 5}]),
        "a text as provideClusterInfo": plugin("token", provideClusterInfo="true"),
        "a boolean as user": False,
    }
    rows += _of_users("types", users)
    rows.append(
        Case(
            "a wrong type in an entry that is not used",
            {"config": config(users=[{"name": "u", "user": {"token": "t"}}, {"name": "x", "user": {"token": 5}}])},
        )
    )
    return rows
