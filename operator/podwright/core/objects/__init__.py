"""Kubernetes objects as the scheduler needs them: parsed once, immutable afterwards.

`quantity` (exact amounts), `selectors`, `taints`, `resources` (what a pod asks for), `pod` (PodInfo) and `node` (Node).
Each parser takes the JSON dictionary that the API server serves and raises `InvalidObjectError` naming object and field.
"""
