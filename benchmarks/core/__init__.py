"""What the core costs, in process and without an API server."""
