"""Benchmarks of the core alone: in process, without an API server."""
