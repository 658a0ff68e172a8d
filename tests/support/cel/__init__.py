"""Expressions against Kubernetes' own code: the oracle, generated expressions, and how answers are compared."""
