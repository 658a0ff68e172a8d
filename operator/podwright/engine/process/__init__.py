"""Parts of the process: its identity, its memory, child processes, slices of the loop's time, threads for calls that
may not return, and cancellation of tasks.
"""
