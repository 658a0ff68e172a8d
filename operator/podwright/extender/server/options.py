"""The options of `podwright extender`: some of those that every scheduler process has (`kube/options/options.py`), and
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.definitions import definitions, option
from podwright.kube.options.options import OPTIONS, Options
from podwright.kube.options.serving import ServingOptions
from podwright.kube.options.values import ADDRESS, FILE, NAMES, QUANTITY, SWITCH, OptionsError
from podwright.kube.serve.access.gates import is_loopback

LEAST_BODY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions:
    """Raises OptionsError for values that contradict each other. `common`: the options that other processes have,
    too.
    """

    common: Options
    address: tuple[str, int] = option(
        ADDRESS,
        "Where to serve kube-scheduler: over HTTPS with --tls-cert-file, otherwise over HTTP. Callers may show client "
        "certificates that "
        "--client-ca-file has issued.",
        default="127.0.0.1:8888",
    )
    allowed_client_names: tuple[str, ...] = option(
        NAMES, "The common names of client certificates that may call. Default: all.", default=""
    )
    token_file: str | None = option(
        FILE,
        "A file with a token. Callers that send it as bearer token are allowed as well. Read again when it changes.",
    )
    allow_unauthenticated: bool = option(
        SWITCH, "Let everybody who can reach --address call the extender, and so bind pods.", default="false"
    )
    max_body_bytes: int = option(
        QUANTITY,
        "The longest body of a request, and the most bytes of large bodies at once. They take about three times as "
        "much memory.",
        default="64Mi",
    )

    def __post_init__(self) -> None:
        if self.max_body_bytes < LEAST_BODY_BYTES:
            raise OptionsError("--max-body-bytes must be at least 1Mi")
        if self.verifies_certificates and not self.serves_https:
            raise OptionsError("--client-ca-file needs --tls-cert-file: client certificates need HTTPS")
        if self.allowed_client_names and not self.verifies_certificates:
            raise OptionsError("--allowed-client-names needs --client-ca-file")
        authenticates = self.verifies_certificates or self.token_file is not None
        host = self.address[0]
        if not authenticates and not self.allow_unauthenticated and not is_loopback(host):
            raise OptionsError(
                "anyone who can reach --address can bind pods: give --client-ca-file or --token-file, listen on "
                "127.0.0.1, or give "
                "--allow-unauthenticated"
            )

    @property
    def serves_https(self) -> bool:
        return self.common.tls_cert_file is not None

    @property
    def verifies_certificates(self) -> bool:
        """True if callers may show a client certificate."""
        return self.common.client_ca_file is not None

    @property
    def token_path(self) -> Path | None:
        return None if self.token_file is None else Path(self.token_file)


EXTENDER_OPTIONS: Final = tuple(definitions(ExtenderOptions))
"""The definitions of the command's own options."""
_SERVING: Final = frozenset(each.name for each in fields(ServingOptions)) - {"page"}
_DECIDING: Final = frozenset(
    (
        *("kubeconfig", "context", "config", "scheduler_name", "allowed_scheduler_names", "allow_unsafe_policies"),
        *(
            "when_policy_is_bad",
            "feature_gates",
            "emulated_version",
            "plugin_dirs",
            "plugin_budget",
            "plugin_state_dir",
            "health_address",
            "master",
            "signals",
        ),
        *("log_level", "logging_format", "verbosity", "vmodule"),
    )
)
_MEANINGS: Final[Mapping[str, str]] = {
    "health_address": (
        "Where to serve health over plain HTTP; to clients on the same machine also metrics and /configz. Default: "
        "not served."
    ),
    "secure_port": (
        "Where to serve health, metrics and /configz over HTTPS, with authentication and authorization. 0: not served."
    ),
    "tls_cert_file": (
        "The certificate for --address and --secure-port, followed by those of its issuers. Read again when it changes."
    ),
    "client_ca_file": (
        "The issuers of client certificates that may call at --address, and that authenticate users of --secure-port. "
        "Default: at "
        "--address none; for --secure-port those of the cluster, in the ConfigMap "
        "kube-system/extension-apiserver-authentication."
    ),
}
"""The help texts of options that mean something else here."""
COMMON_OPTIONS: Final = tuple(
    replace(each, help=_MEANINGS.get(each.name, each.help)) for each in OPTIONS if each.name in _SERVING | _DECIDING
)
"""The definitions of the options of other processes that the command has, too. It serves no page, and explains no pods.
"""
