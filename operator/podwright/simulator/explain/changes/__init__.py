"""The least change that would help: candidates by plugin, each tried on the World, and shown only if the production
core then places the pod.

`search` puts them together. `trials` makes decisions under a hypothesis and rolls it back.
"""
