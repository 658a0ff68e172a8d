"""Health, metrics, configuration, reports and the page over HTTPS and HTTP, in a thread of its own.

Start with `server.py`, which opens each `port.py` with the routes of `endpoints.py`. `connections` bounds what clients
can use, `tls` keeps certificates current, `access` decides who may read what, and `answers` computes what they read, in
part in the scheduler's loop (`event_loops.py`). `page` is the page in the browser.
"""
