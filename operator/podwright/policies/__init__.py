"""Tools for people who write policies: lint before they are applied. The commands are in podwright/cli/policy.py."""
