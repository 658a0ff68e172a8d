"""The asynchronous loop around the core: watch events come in, decisions are carried out.

`engine` is the scheduling loop and builds all parts (start there). `intake` takes raw objects into cache and queue, `binding`
carries out placements, `failures` and `preemption` carry out rejections, and `gangs` does both for pod groups. The parts share
`state`. `ports` defines what they need from the outside, and `kube` implements it. Nothing in this package does I/O.
"""
