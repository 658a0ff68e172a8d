"""Compares Podwright with kube-scheduler on the same machine, with the same API server and the same workloads.

`python -m benchmarks` is the command (`make bench`). `workloads` reads the workload files, `schedulers` starts the
schedulers, `run_plan` orders the runs, `measurement` makes one of them, and `results` saves the figures.
"""
