"""A small in-memory Kubernetes API server for the demo, the examples and the fast tests.

It speaks enough of the Kubernetes API over HTTP for kubectl, Kopf, the kubernetes client and Podwright itself:
discovery, list and watch, the write verbs, three kinds of patch, `pods/binding` and `pods/eviction`, CRDs with their
schemas, Tables. Objects are generic: a kind is a line in `kinds.py`. What it does, it does as the real API server
does, and `tests/contract` runs against both.

What it is not: it has no authentication, no RBAC, no admission (but for a missing namespace or PriorityClass), and no
persistence. It does not validate built-in kinds beyond names and a few rules for pods, canonicalises no quantities,
evaluates no CEL validations of CRDs, keeps no `managedFields`, answers server-side apply with 415, converts nothing
between versions but Events, and speaks no protobuf. A list is always current, whatever `resourceVersion` asks for.

Read `server.py` (HTTP), then `cluster.py` (what each verb does to an object), then `store.py` (revisions, watches).
"""

from podwright.sandbox.runner import Sandbox, SandboxThread

__all__ = ["Sandbox", "SandboxThread"]
