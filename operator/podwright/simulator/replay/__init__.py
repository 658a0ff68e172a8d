"""Replays a stream of pods under several policies, on one simulated cluster each, and compares what came of it. Start in `run`."""
