"""The answers of the server: health checks, configuration, metrics of pods, and reports."""
