"""WorkloadGroupings, and the owners of pods that they read.

* `door`: takes groupings into the engine, and writes their statuses.
* `owners`: watches the kinds of owners that groupings name.
"""
