"""Objects in: watches of the API server, and the audits that find what a watch has missed.

* `reflector`: list and watch of one kind, handed to a sink of engine/intake.
* `audit`: compares a reflector with the server; a missed event triggers a relist.
* `pending_audit`: compares the queue with the pending pods of the server; Kopf or a reflector may watch them.
"""
