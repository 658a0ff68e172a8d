"""The API clients for reviews of tokens and of access."""

from __future__ import annotations

import time

from podwright.engine.records.metrics import Metrics
from podwright.kube.client.credentials import credentials
from podwright.kube.client.http import Http
from podwright.kube.options.options import Options


def review_clients(options: Options, http: Http, metrics: Metrics) -> tuple[Http, Http]:
    """The API clients for TokenReviews and for SubjectAccessReviews. Raises ConfigError for unusable credentials."""
    given: dict[str | None, Http] = {None: http}
    for kubeconfig in (options.authentication_kubeconfig, options.authorization_kubeconfig):
        if kubeconfig not in given:
            given[kubeconfig] = Http(credentials.load(kubeconfig, None, time.time, time.monotonic), metrics)
    return given[options.authentication_kubeconfig], given[options.authorization_kubeconfig]
