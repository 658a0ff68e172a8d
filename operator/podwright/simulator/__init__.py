"""Runs the core without a cluster: `cases` reads clusters from files, `evaluation` reports all decisions about a pod."""
