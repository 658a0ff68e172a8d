"""The signal that stops plugins which do not return: in a process of its own, because a process has one timer."""

import subprocess
import sys
from textwrap import dedent

PROGRAM = """
    import asyncio, re, threading, time

    from podwright.core.framework.errors import PluginStoppedError
    from podwright.core.framework.interface import CycleState
    from podwright.engine.plugins import guard as plugin_guard
    from podwright.engine.records.metrics import Metrics
    from podwright.engine.plugins.guard import PluginGuard
    from podwright.kube.plugins import alarm as plugin_alarm
    from podwright.kube.plugins.alarm import PluginAlarm

    plugin_guard.STOP_SECONDS = 0.05
    plugin_alarm.TICK_SECONDS = 0.02
    lock = threading.Lock()
    lock.acquire()

    def catches_everything():
        while True:
            try:
                while True:
                    time.sleep(0.001)
            except BaseException:
                pass

    BODIES = {
        "a sleep": lambda: time.sleep(3600),
        "an endless loop": lambda: [None for _ in iter(int, 1)],
        "a regular expression": lambda: re.match("(a+)+$", "a" * 60 + "b"),
        "a lock": lambda: lock.acquire(),
        "a generator": lambda: max(10**i % 7 for i in iter(int, 1)),
        "one that catches everything": catches_everything,
        "one that comes back": lambda: time.sleep(0.01),
    }

    class Owner:
        name = "custom"

    class Framework:
        hints, disabled_checks = {}, ()

        def __init__(self, body):
            names = {"__module__": "team_plugins", "name": "Hanging", "filter": lambda self, state: body()}
            self.plugins = {"Hanging": type("Hanging", (), names)()}

    async def main():
        guard = PluginGuard(Metrics(time.monotonic), clock=time.monotonic, cpu=time.thread_time)
        alarm = PluginAlarm(guard)
        alarm.start()
        for name, body in BODIES.items():
            if name == "one that comes back":
                plugin_guard.STOP_SECONDS = 60.0  # however busy the machine is
            framework = Framework(body)
            guard.protect(framework, Owner)
            for _ in range(2):
                try:
                    framework.plugins["Hanging"].filter(CycleState())
                    print(name, "came back")
                except PluginStoppedError as error:
                    print(name, error)
                await asyncio.sleep(0.03)
        alarm.stop()

    asyncio.run(main())
    print("the end")
"""


def test_whatever_a_plugin_does_not_come_back_from_is_stopped():
    command = [sys.executable, "-c", dedent(PROGRAM)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    stopped = "did not return from filter within 0.05 s, and was stopped"
    expected = [
        f"{what} {stopped}"
        for what in (
            "a sleep",
            "an endless loop",
            "a regular expression",
            "a lock",
            "a generator",
            "one that catches everything",
        )
    ]
    assert ended.stdout.splitlines() == [
        *(line for line in expected for _ in range(2)),
        *["one that comes back came back"] * 2,
        "the end",
    ], ended.stderr
