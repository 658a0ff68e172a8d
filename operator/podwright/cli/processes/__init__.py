"""Processes that commands run until a signal ends them: the scheduler, and the API of `podwright simulate --serve`."""
