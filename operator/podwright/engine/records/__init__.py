"""Records: metrics, decisions, log fields, and the usage of each policy and queue."""
