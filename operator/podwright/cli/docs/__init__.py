"""Generates documents: docs/options.md, and the pictures of docs/strategies.md."""
