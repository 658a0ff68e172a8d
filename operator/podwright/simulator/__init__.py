"""Runs the core without a cluster: `cases` and `dump` read clusters from files, `evaluation` reports all decisions about a pod."""
