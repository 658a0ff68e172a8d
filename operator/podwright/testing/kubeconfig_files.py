"""Kubeconfig files for the test control plane: one cluster, one user, one context."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Login:
    """The credentials in a kubeconfig: a bearer token, and optionally a user and groups to impersonate."""

    token: str
    impersonated_user: str | None = None
    impersonated_groups: tuple[str, ...] = ()


def write_kubeconfig(
    path: Path, server: str, certificate_authority: Path, login: Login, namespace: str = "default"
) -> Path:
    """Writes a kubeconfig that only its owner can read, and returns its path."""
    user: dict[str, Any] = {"token": login.token}
    if login.impersonated_user:
        user |= {"as": login.impersonated_user, "as-groups": list(login.impersonated_groups)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "podwright", "cluster": {"server": server, "certificate-authority": str(certificate_authority)}}
        ],
        "users": [{"name": "user", "user": user}],
        "contexts": [
            {"name": "podwright", "context": {"cluster": "podwright", "user": "user", "namespace": namespace}}
        ],
        "current-context": "podwright",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
