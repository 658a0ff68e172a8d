"""Kubeconfig files for the test control plane: one cluster, one user, one context."""

from pathlib import Path

import yaml


def write_kubeconfig(
    path: Path, server: str, certificate_authority: Path, token: str, namespace: str = "default"
) -> Path:
    """Writes a kubeconfig with a bearer token that only its owner can read, and returns its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "podwright", "cluster": {"server": server, "certificate-authority": str(certificate_authority)}}
        ],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [
            {"name": "podwright", "context": {"cluster": "podwright", "user": "user", "namespace": namespace}}
        ],
        "current-context": "podwright",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
