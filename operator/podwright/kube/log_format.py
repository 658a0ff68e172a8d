"""The form of log lines: a message is one line, has no control characters, and is of bounded length.

Names, labels and messages of errors come from users. A line break in them could forge a log line, an escape sequence could
change what a terminal shows, and a long one could fill the disk. Both ways to run the operator put `SafeFormatter` around the
formatters of their handlers, Kopf's too.
"""

from __future__ import annotations

import copy
import logging
from typing import Final

MESSAGE_LIMIT: Final = 2_000
"""The longest message, in characters. It also bounds each line of a traceback."""
TRACEBACK_LINES: Final = (20, 80)
"""How many lines of a long traceback remain at its beginning and at its end."""
_INDENT: Final = "    "


class SafeFormatter(logging.Formatter):
    """Has another formatter format the record, after making its texts safe.

    Tracebacks keep their lines. These are indented, so none of them looks like the beginning of a log line.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()  # as every formatter does
        safe = copy.copy(record)  # other handlers get the record as it was
        safe.msg, safe.args = one_line(record.message), None
        trace = record.exc_text or (self.inner.formatException(record.exc_info) if record.exc_info else None)
        safe.exc_info, safe.exc_text = None, trace and _indented(trace)
        safe.stack_info = record.stack_info and _indented(record.stack_info)
        return self.inner.format(safe)


def make_safe(logger: logging.Logger) -> None:
    """Puts a SafeFormatter around the formatter of each handler of this logger that has none yet."""
    for handler in logger.handlers:
        if not isinstance(handler.formatter, SafeFormatter):
            handler.setFormatter(SafeFormatter(handler.formatter or logging.Formatter()))


def one_line(text: str) -> str:
    """The text with escape sequences, as in Python's literals, for everything that is not printable. Long text is cut."""
    left_out = len(text) - MESSAGE_LIMIT
    if left_out > 0:
        text = text[:MESSAGE_LIMIT]
    if (
        not text.isprintable()
    ):  # false for control, format, surrogate and unassigned characters, and all line separators
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"{text} ... ({left_out} more characters)" if left_out > 0 else text


def _indented(traceback: str) -> str:
    first, last = TRACEBACK_LINES
    lines = traceback.split("\n")
    left_out = len(lines) - first - last
    if left_out > 0:
        lines[first:-last] = [f"... ({left_out} more lines)"]
    return "\n".join(f"{_INDENT}{one_line(line)}" for line in lines)
