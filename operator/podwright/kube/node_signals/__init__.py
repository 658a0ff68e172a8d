"""Signals: asks their sources for numbers of the nodes, bounded in time and size, beside the decisions. Start with `feeds`."""
