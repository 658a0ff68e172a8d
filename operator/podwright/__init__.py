"""Podwright: a Kubernetes scheduler that people program instead of compile."""

__version__ = "0.1.0"
