"""The ports' real side: everything that talks to the API server over HTTP.

`credentials` is the one source of who we are, `http` the one holder of sessions; `reflector` brings objects in, `bindings`,
`status`, `events` and `eviction` write; `cluster` is the `Cluster` that plugins see; `runtime` puts it all together.
"""
