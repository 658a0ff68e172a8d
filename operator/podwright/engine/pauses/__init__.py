"""How long attempts pause: `slices` cuts them into slices, `quiet` gives those that start anew too often a time without changes."""
