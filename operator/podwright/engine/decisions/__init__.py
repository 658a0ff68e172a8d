"""Records of decisions: in the pod's annotation, in the log, and in memory for /debug/explain and the page."""
