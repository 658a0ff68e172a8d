"""What belongs to the process: its identity, its memory, threads for calls that may not return, and cancellation of tasks."""
