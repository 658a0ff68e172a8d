"""Replays a stream of pods under several policies, each on a simulated cluster of its own, and compares the results.
Start with `run`.
"""
