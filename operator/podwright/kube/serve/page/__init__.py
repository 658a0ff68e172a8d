"""The web page: nodes, queue, decisions and policies of a running scheduler, live. Read only.

Its files are the same for everybody and say nothing about the cluster. What does is behind the gate of the port, and named pods also behind
the right to list them. Start with `routes`, then `feed`.
"""
