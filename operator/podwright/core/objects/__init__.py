"""Kubernetes objects, parsed once into the immutable form that the scheduler uses. Start with `pod` (PodInfo) and
`node` (Node).

Each parser takes the JSON dictionary that the API server serves. If a field is invalid, it raises `InvalidObjectError`
with the object and the field.
"""
