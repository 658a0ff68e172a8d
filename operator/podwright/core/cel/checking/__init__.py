"""Makes a checked tree of an expression's text. Start with `checker`. `tree` has the nodes."""
