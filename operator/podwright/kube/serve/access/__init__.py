"""Who may read what. Start with `gates`: one for plain HTTP, and `delegated_gate` for HTTPS, which asks the API
server.
"""
