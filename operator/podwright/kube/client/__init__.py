"""The client of the API server: how a request gets there, and what its failure means.

* `http`: requests and streams with the current credentials; `answers`: a response.
* `wire`: HTTP/1.1 for short requests; `response`: how responses are read.
* `errors`: every error and its predicates; `retry`: the retry policy; `pages`: lists in pages;
  `list_text`: their objects.
* `credentials/`: our credentials, kept fresh, and their sources: kubeconfigs, credential plugins, proxies, TLS.
* `access`: what is served, and what RBAC allows.
* `media_types`, `object_metadata`, `times`: formats of the API; `metrics`: requests counted as client-go does.
"""
