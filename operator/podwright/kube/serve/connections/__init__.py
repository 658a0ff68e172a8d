"""Connections whose clients cannot use up the process. Start with `listener`.

`connection` bounds one connection, and `repeated_requests` answers requests with a known head without aiohttp.
"""
