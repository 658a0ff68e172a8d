"""The server's certificates, and the issuers of its clients' certificates. Start with `secure_port`."""
