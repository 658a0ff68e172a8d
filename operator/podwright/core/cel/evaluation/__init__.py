"""Evaluates checked trees. Start with `compiler`, which makes Python closures of a tree."""
