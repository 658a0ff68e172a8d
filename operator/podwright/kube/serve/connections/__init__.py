"""Connections whose clients cannot use up the process. Start with `listener`."""
