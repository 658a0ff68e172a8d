"""Tools for people who write policies: lint, tests and comparison. The commands are in
podwright/cli/commands/policy.py.
"""
