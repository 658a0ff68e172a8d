"""Log lines that repeat are counted, not repeated: the first one is written, then summaries with a count, at growing
intervals.

    09:00:00 WARNING name: the text
    09:00:10 WARNING name: the text (57 times more in 10 s)

`RepeatedLines` stands before another handler. Two lines are the same if logger, level, text, fields and exception are.
A line is forgotten once an interval passes without it, so its next occurrence is written at once. Memory is bounded.
Lines of a higher verbosity than 0 are all written: whoever asks for them wants each one. So are lines that tell an
order of events, such as who was elected after whom.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.engine.records.log_fields import FIELDS, fields_of, is_written_each_time

FIRST_SECONDS: Final = 10.0
"""The first interval; each following one is twice as long."""
LONGEST_SECONDS: Final = 640.0
REMEMBERED: Final = 500
"""How many different lines are remembered. Further ones replace those written longest ago."""
TEXT_LIMIT: Final = 1_000
"""How many characters of a line its summaries have."""

Timer = Callable[[float, Callable[[], None]], object]
"""Calls a function after some seconds."""
_Key = tuple[str, int, int]


def call_later(seconds: float, work: Callable[[], None]) -> None:
    """The timer of production: a thread that does not keep the process alive."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


@dataclass(slots=True)
class _Line:
    """A line that was written at `written`. `source`: file and line number. `count`: how often it came since; the
    interval ends at `ends`.
    """

    name: str
    level: int
    source: tuple[str, int]
    text: str
    fields: Mapping[str, Any]
    written: float
    ends: float
    interval: float = FIRST_SECONDS
    count: int = 0


class RepeatedLines(logging.Handler):
    """See the module. `clock` in seconds, never stepping back."""

    def __init__(
        self, target: logging.Handler, *, clock: Callable[[], float] = time.monotonic, timer: Timer = call_later
    ) -> None:
        super().__init__(target.level)
        self.target = target
        self._clock = clock
        self._timer = timer
        self._timer_runs = False
        self._lines: OrderedDict[_Key, _Line] = OrderedDict()
        """By what makes a line the same, the one written longest ago first."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record, or counts it."""
        if record.levelno < logging.INFO or is_written_each_time(record):
            self.target.handle(record)
            return
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 -- an argument's own
            self.target.handle(record)  # which reports the malformed call
            return
        error = record.exc_info[1] if record.exc_info else None
        fields = fields_of(record)
        key = (record.name, record.levelno, hash((text, str(fields), type(error), str(error))))
        line = self._lines.get(key)
        now = self._clock()
        if line is not None and (line.count or now < line.ends):
            line.count += 1
            self._start_timer(line.ends - now)
            return
        self._lines[key] = _Line(
            name=record.name,
            level=record.levelno,
            source=(record.pathname, record.lineno),
            text=text[:TEXT_LIMIT],
            fields={key: value[:TEXT_LIMIT] if isinstance(value, str) else value for key, value in fields.items()},
            written=now,
            ends=now + FIRST_SECONDS,
        )
        self._lines.move_to_end(key)
        self.target.handle(record)
        if len(self._lines) > REMEMBERED:
            self._summarize(self._lines.popitem(last=False)[1], now)

    def flush(self) -> None:
        self.target.flush()

    def close(self) -> None:
        """Writes the counts that are left, and closes the target."""
        self.acquire()
        try:
            now = self._clock()
            for line in self._lines.values():
                self._summarize(line, now)
            self._lines.clear()
        finally:
            self.release()
        self.target.close()
        super().close()

    def _start_timer(self, seconds: float) -> None:
        if not self._timer_runs:
            self._timer_runs = True
            # Never later than a new line's first interval ends.
            self._timer(min(FIRST_SECONDS, max(0.1, seconds)), self._on_timer)

    def _on_timer(self) -> None:
        """Writes the summaries that are due, and forgets lines that no longer come."""
        self.acquire()
        try:
            self._timer_runs = False
            now = self._clock()
            for key, line in list(self._lines.items()):
                if now < line.ends:
                    continue
                if not line.count:
                    del self._lines[key]
                    continue
                self._summarize(line, now)
                line.interval = min(LONGEST_SECONDS, 2 * line.interval)
                line.written, line.ends = now, now + line.interval
                self._lines.move_to_end(key)
            ends = [line.ends for line in self._lines.values() if line.count]
            if ends:
                self._start_timer(min(ends) - now)
        finally:
            self.release()

    def _summarize(self, line: _Line, now: float) -> None:
        if not line.count:
            return
        times = "once" if line.count == 1 else f"{line.count} times"
        text = f"{line.text} ({times} more in {now - line.written:.0f} s)"
        line.count = 0
        # The text is an argument, because it may contain percent signs.
        summary = logging.LogRecord(line.name, line.level, *line.source, "%s", (text,), None)
        setattr(summary, FIELDS, line.fields)
        self.target.handle(summary)


def count_repeated_lines() -> None:
    """Puts a RepeatedLines before each handler of the root logger that writes to standard error."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if getattr(handler, "stream", None) is sys.stderr:
            root.removeHandler(handler)
            root.addHandler(RepeatedLines(handler))
