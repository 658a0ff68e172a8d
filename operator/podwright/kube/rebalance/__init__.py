"""The door of RebalancePolicies, and their statuses."""
