"""The metrics of a process. Start with `metrics`, the catalogue. `families` holds the numbers."""
