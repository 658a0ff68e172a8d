"""Rebalancing: plans are made, and their moves carried out one after another. Start with `rebalancing`."""
