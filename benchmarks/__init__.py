"""Podwright beside kube-scheduler, on the same API server, the same machine, in the same run.

`python -m benchmarks` is the command (`make bench`). Read `run` for what one measurement is, `workloads` for what is scheduled,
`schedulers` for who schedules, `results` for what is kept.
"""
