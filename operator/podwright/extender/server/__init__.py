"""The server of `podwright extender`: answers kube-scheduler's calls with the policies of this cluster. Start with
`runtime`.

connection ─► gate ─► endpoints ─► bodies: what is asked ─► verdicts: core/cycle on the cache ─► answer
└► bindings: assume, Binding ─────────► answer
"""
