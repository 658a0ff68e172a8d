"""The asynchronous loop around the core: watch events come in, decisions are carried out.

`engine` is the scheduling loop and builds all parts (start there). `intake` takes raw objects into cache and queue,
`attempts` asks the core about single pods and `gangs` about pod groups, `binding` carries out placements, and
`rejections` does what follows a failed attempt, preemption included. The parts share `state`. `ports` defines what they
need from the outside, and `kube` implements it. Nothing in this package does I/O.
"""
