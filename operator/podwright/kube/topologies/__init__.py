"""Topologies: from the objects of the API server to the levels that the core has, and their status back."""
