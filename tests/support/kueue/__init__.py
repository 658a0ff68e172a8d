"""Kueue for tests: its CRDs, as far as admission checks need them, and a stand-in for its controller."""
