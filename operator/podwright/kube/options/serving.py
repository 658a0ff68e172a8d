"""The options of the server of health and metrics, and of who may read what there, with kube-scheduler's names and
defaults.
"""

from __future__ import annotations

from collections.abc import Iterator

from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.definitions import option
from podwright.kube.options.values import (
    ALL_ADDRESSES,
    CERTIFICATE_FOR_NAMES,
    CIPHER_SUITES,
    CURVE_NAMES,
    CURVES,
    DURATION,
    FILE,
    HEADERS,
    IP_ADDRESS,
    PATHS,
    PORT,
    SWITCH,
    TLS_VERSION,
    CertificateForNames,
    OptionsError,
)


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """See the module."""

    bind_address: str = option(
        IP_ADDRESS,
        "The address for --secure-port. 0.0.0.0 and :: stand for all addresses.",
        default=ALL_ADDRESSES,
    )
    secure_port: int = option(
        PORT,
        "Where to serve health, metrics, /configz, /debug/explain and the page over HTTPS, with authentication and "
        "authorization. 0: not served.",
        default="0",
        as_kube_scheduler="10259",
    )
    page: bool = option(
        SWITCH,
        "Serve a page that shows nodes, queue and decisions live at /page/, where metrics are served (docs/page.md).",
        default="true",
    )
    permit_port_sharing: bool = option(
        SWITCH, "Let other processes listen on --secure-port too (SO_REUSEPORT).", default="false"
    )
    cert_dir: str | None = option(
        FILE,
        "The directory of the certificate for --secure-port, kube-scheduler.crt and kube-scheduler.key. If it has "
        "none, a self-signed "
        "one is written there. Default: a self-signed one, in memory.",
    )
    tls_cert_file: str | None = option(
        FILE, "The certificate for --secure-port, followed by those of its issuers. Read again when it changes."
    )
    tls_private_key_file: str | None = option(FILE, "The private key of --tls-cert-file.")
    tls_min_version: str = option(
        TLS_VERSION,
        "The oldest version of TLS for --secure-port. TLS 1.0 and 1.1 are never used.",
        default="VersionTLS12",
    )
    tls_cipher_suites: tuple[str, ...] = option(
        CIPHER_SUITES, "The cipher suites of TLS 1.2 for --secure-port. Default: those of OpenSSL.", default=""
    )
    tls_curve_preferences: tuple[int, ...] = option(
        CURVES,
        "The curve for key exchange on --secure-port, by Go's number: 23 (P-256), 24 (P-384), 25 (P-521) or 29 "
        "(X25519). Default, also for several numbers: those of OpenSSL.",
        default="",
    )
    tls_sni_cert_key: tuple[CertificateForNames, ...] = option(
        CERTIFICATE_FOR_NAMES,
        "Another certificate for --secure-port, its key, and the server names for which it is used. Default: the "
        "names in the certificate. Can be repeated.",
        repeatable=True,
    )
    client_ca_file: str | None = option(
        FILE,
        "The issuers of client certificates that authenticate users of --secure-port. Default: those of the cluster, "
        "in the "
        "ConfigMap kube-system/extension-apiserver-authentication.",
    )
    requestheader_client_ca_file: str | None = option(
        FILE,
        "The issuers of client certificates of front proxies, which name the user in headers. Default: those of the "
        "cluster, with the "
        "names and headers there, in the ConfigMap kube-system/extension-apiserver-authentication.",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        HEADERS,
        "With --requestheader-client-ca-file: the common names of front proxies' certificates. Default: any.",
        default="",
    )
    requestheader_username_headers: tuple[str, ...] = option(
        HEADERS, "With --requestheader-client-ca-file: the headers with the user's name.", default="x-remote-user"
    )
    requestheader_uid_headers: tuple[str, ...] = option(
        HEADERS, "With --requestheader-client-ca-file: the headers with the user's uid.", default=""
    )
    requestheader_group_headers: tuple[str, ...] = option(
        HEADERS, "With --requestheader-client-ca-file: the headers with the user's groups.", default="x-remote-group"
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        HEADERS,
        "With --requestheader-client-ca-file: the prefixes of headers with further data about the user.",
        default="x-remote-extra-",
    )
    authentication_kubeconfig: str | None = option(
        FILE, "The kubeconfig for TokenReviews and the lookup of client CAs. Default: the same as for everything else."
    )
    authentication_skip_lookup: bool = option(SWITCH, "Do not look up the cluster's client CAs.", default="false")
    authentication_tolerate_lookup_failure: bool = option(
        SWITCH, "Start even if the cluster's client CAs cannot be looked up.", default="true"
    )
    authentication_token_webhook_cache_ttl: float = option(
        DURATION, "How long the result of a TokenReview is used.", default="10s"
    )
    authorization_kubeconfig: str | None = option(
        FILE, "The kubeconfig for SubjectAccessReviews. Default: the same as for everything else."
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        PATHS,
        "The paths of --secure-port that everybody may read. A final * stands for any text.",
        default="/healthz,/readyz,/livez",
    )
    authorization_webhook_cache_authorized_ttl: float = option(
        DURATION, "How long a SubjectAccessReview that allowed a request is used.", default="10s"
    )
    authorization_webhook_cache_unauthorized_ttl: float = option(
        DURATION, "How long a SubjectAccessReview that refused a request is used.", default="10s"
    )

    @property
    def serving_warnings(self) -> Iterator[str]:
        """Warnings about options without effect."""
        if self.tls_min_version in ("VersionTLS10", "VersionTLS11"):
            yield f"--tls-min-version={self.tls_min_version} has no effect: TLS 1.0 and 1.1 are never used"
        if self.cert_dir and self.tls_cert_file is not None:
            yield "--cert-dir has no effect: --tls-cert-file and --tls-private-key-file are used"

        if self.tls_curve_preferences and self.only_curve is None:
            yield (
                "--tls-curve-preferences has no effect: Python's ssl module can allow a single curve only, one of "
                f"{', '.join(map(str, CURVE_NAMES))}"
            )

    @property
    def only_curve(self) -> str | None:
        """OpenSSL's name of the only curve that is allowed; None for OpenSSL's defaults."""
        found = [CURVE_NAMES.get(number) for number in dict.fromkeys(self.tls_curve_preferences)]
        return found[0] if len(found) == 1 else None

    def check_serving(self) -> None:
        """Raises OptionsError for values that contradict each other."""
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise OptionsError("--tls-cert-file and --tls-private-key-file must be given together")
        uids = self.requestheader_uid_headers
        if uids and "x-remote-uid" not in map(str.lower, uids):
            raise OptionsError("--requestheader-uid-headers must name the standard header X-Remote-Uid, too")
