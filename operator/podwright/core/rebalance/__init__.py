"""Plans of rebalancing: moves of pods to nodes that are proved to take them. Start with `planner`."""
