"""A small in-memory Kubernetes API server for the demo, the examples and the fast tests.

It serves enough of the Kubernetes API over HTTP for kubectl, Kopf, the kubernetes client and Podwright itself:
discovery, list and watch, the write verbs, three patch types, `pods/binding` and `pods/eviction`, CRDs with their
schemas, and Tables. Objects are generic: a kind is one line in `kinds.py`. `tests/contract` runs against the sandbox
and a real API server, and holds both to the same behaviour.

Limits: there is no authentication, RBAC or persistence, and no admission except for missing namespaces and
PriorityClasses. The sandbox validates only the names of built-in kinds and a few rules for pods. It does not normalize
quantities, evaluate the CEL validations of CRDs, or keep `managedFields`. It answers server-side apply and protobuf
with 415, and converts only Events between versions. A list is always current; the sandbox ignores its
`resourceVersion`.

Read `server.py` (HTTP), then `cluster.py` (what each verb does to an object), then `store.py` (revisions, watches).
"""

from podwright.sandbox.runner import Sandbox, SandboxThread

__all__ = ["Sandbox", "SandboxThread"]
