"""Our credentials for the API server. Start with `credentials`.

The other modules read their sources: kubeconfigs, credential plugins, proxies and TLS.
"""
