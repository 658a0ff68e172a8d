"""The client of the API server: how a request gets there, and what its failure means.

* `http`: requests and streams with the current credentials; `wire`: HTTP/1.1 for short requests; `answers`: a response.
* `errors`: every error and its predicates; `retry`: the retry policy; `pages`: lists in pages.
* `credentials`: who we are, kept fresh; `kubeconfig`: where they are found.
* `access`: what is served, and what RBAC allows.
* `media_types`, `object_metadata`, `times`: formats of the API; `metrics`: requests counted as client-go does.
"""
