"""Objects in: watches of the API server, and the audits that find what a watch has missed.

* `reflector`: list and watch of one kind, handed to a sink of engine/intake.
* `audit`: compares a reflector with the server; a missed event triggers a relist.
* `pending_audit`: compares the queue with the pending pods of the server; Kopf or a reflector may watch them.
* `watches`: all reflectors of a runtime; `newly_served`: pods of scheduler names that a policy has just begun to serve.
* `selectors`: field selectors of pods.
"""
