"""The web page: nodes, queue, decisions and policies of a running scheduler, live. Read only.

Its files are the same for everybody and contain nothing about the cluster. Data about the cluster is behind the gate of
the port, and names of pods also need the right to list pods. Start with `routes`, then `feed`.
"""
