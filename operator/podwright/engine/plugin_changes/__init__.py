"""Changes of the plugins that policies use while the scheduler runs: `reload` loads changed files, `switches` turns off
plugins that are too slow.
"""
