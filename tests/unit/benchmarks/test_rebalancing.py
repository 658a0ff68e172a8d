"""The day of the benchmark of rebalancing: tasks come and leave at their own times."""

from __future__ import annotations

from random import Random

from benchmarks import rebalancing
from benchmarks.rebalancing import GPU, day_of

from podwright.simulator.replay.task_lists import read_tasks

TASKS = """\
name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time,scheduled_time
before,1000,1024,1,86000,90000,86010
within,1000,1024,1,100000,100060,100000
short,1000,1024,0,100010,100020,100010
beyond,1000,1024,2,172000,180000,172000
ended,1000,1024,4,1000,2000,1000
later,1000,1024,4,200000,300000,200000
"""


def test_tasks_come_and_leave_at_their_own_times_until_enough_is_requested(tmp_path, monkeypatch):
    """Three tasks come on the second day of the trace, and fewer on each other one."""
    monkeypatch.setattr(rebalancing, "BUSY", 3)
    path = tmp_path / "tasks.csv"
    path.write_text(TASKS)
    events = day_of(read_tasks(str(path)), 3, Random(1))
    assert [(max(0, time), comes, pod.name) for time, comes, pod in events] == [
        (0, 1, "before-1"), (0, 1, "before-2"),
        (3590, 0, "before-1"), (3590, 0, "before-2"),
        (13600, 1, "within-1"), (13600, 1, "within-2"),
        (13610, 1, "short-1"), (13610, 1, "short-2"),
        (13620, 0, "short-1"), (13620, 0, "short-2"),
        (13660, 0, "within-1"), (13660, 0, "within-2"),
        (85600, 1, "beyond-1"), (85600, 1, "beyond-2"),
    ]  # fmt: skip
    stay = {pod.name: pod for _, comes, pod in events if comes}
    for _, comes, pod in events:
        if not comes:
            del stay[pod.name]
    assert sum(pod.requests.amounts[GPU] for pod in stay.values()) == 4
