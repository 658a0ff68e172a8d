"""Changes of the plugins that policies use while the scheduler runs: reload takes changed files over, switches turns off a plugin that is too slow."""
