"""Policies and sets of policies, for tests of `podwright/api`."""
