"""The async loop around the core: events in, decisions carried out.

`intake` takes raw objects into cache and queue, `engine` is the scheduling loop (start there), `binding` carries a placement
out, `failures` a rejection; `ports` says what they need of the outside, and `kube` implements it. Nothing here does I/O.
"""
