"""The form of log lines: a message is one line, has no control characters, and is of bounded length. So are its fields.

Names, labels and messages of errors come from users. A line break in them could forge a log line, an escape sequence
could change what a terminal shows, and a long one could fill the disk. `podwright run` writes klog's text format or
component-base's JSON format (`configure_logging`); Kopf has formats of its own, around which `make_safe` puts
`SafeFormatter`. `engine/records/log_fields.py` says how lines and their fields are logged. Sources: k8s.io/klog,
"structured logging"; k8s.io/component-base/logs/json.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import podwright
from podwright.core.objects.errors import described
from podwright.engine.records.log_fields import ObjectRef, fields_of, level_of, verbosity_of

MESSAGE_LIMIT: Final = 2_000
"""The longest message, in characters. It also bounds each field and each line of a traceback."""
TRACEBACK_LINES: Final = (20, 80)
"""How many lines of a long traceback remain at its beginning and at its end."""
_INDENT: Final = "    "


class SafeFormatter(logging.Formatter):
    """Has another formatter format the record, after making its texts safe. The fields follow the message.

    Tracebacks keep their lines. These are indented, so none of them looks like the beginning of a log line.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()  # as every formatter does
        safe = copy.copy(record)  # other handlers get the record as it was
        safe.msg, safe.args = one_line(record.message) + text_of_fields(fields_of(record)), None
        trace = record.exc_text or (self.inner.formatException(record.exc_info) if record.exc_info else None)
        safe.exc_info, safe.exc_text = None, trace and _indented(trace)
        safe.stack_info = record.stack_info and _indented(record.stack_info)
        return self.inner.format(safe)


class TextFormatter(logging.Formatter):
    """klog's text: severity, date, local time, process, file and line, then the quoted message and the fields.

        I1122 12:20:45.123456    4711 runtime.py:277] "Caches are complete" nodes=3 pods=5

    A traceback follows in indented lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1e6)
        header = f"{_severity(record)[0]}{stamp}.{micros:06d} {os.getpid():>7} {record.filename}:{record.lineno}]"
        fields, trace = {**fields_of(record), **_error(record)}, _trace(self, record)
        line = f"{header} {quoted(record.getMessage())}{text_of_fields(fields)}"
        return f"{line}\n{_indented(trace)}" if trace else line


class JSONFormatter(logging.Formatter):
    """component-base's JSON: `ts` in milliseconds, `caller`, `msg`, `v` (not for errors), the fields, and `err`.

    Pods are objects with name and namespace. `severity` tells warnings from other lines, and `stacktrace` has the
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        caller = f"{Path(record.pathname).parent.name}/{record.filename}:{record.lineno}"
        severity = _severity(record)
        line: dict[str, Any] = {"ts": round(record.created * 1e3, 4), "caller": caller}
        line["msg"] = one_line(record.getMessage())
        if severity != "ERROR":
            line["v"] = verbosity_of(record.levelno)
        line["severity"] = severity
        line.update((key, _json_value(value)) for key, value in {**fields_of(record), **_error(record)}.items())
        if trace := _trace(self, record):
            line["stacktrace"] = "\n".join(_safe_lines(trace))
        return json.dumps(line, ensure_ascii=False)


FORMATS: Final[Mapping[str, Callable[[], logging.Formatter]]] = {"text": TextFormatter, "json": JSONFormatter}
"""The values of --logging-format."""


def configure_logging(
    log_format: str, verbosity: int, modules: Sequence[tuple[str, int]] = (), level: int = logging.INFO
) -> None:
    """Sets up the root logger for lines on standard error.

    `modules`: patterns of modules with a verbosity of their own, see `--vmodule`. `level`: nothing below is logged,
    unless it is INFO or lower.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[log_format]())
    logging.basicConfig(handlers=[handler])
    root = logging.getLogger()
    root.setLevel(min(level, level_of(verbosity)) if level <= logging.INFO else level)
    make_safe(root)
    for name in module_names() if modules else ():
        for pattern, own in modules:
            if fnmatch.fnmatchcase(name if "." in pattern else name.rpartition(".")[2], pattern):
                logging.getLogger(name).setLevel(level_of(own))
                break


def module_names() -> list[str]:
    """The names of Podwright's modules, whether they are imported or not."""
    root = Path(podwright.__file__).parent
    paths = (path.relative_to(root.parent).with_suffix("") for path in root.rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def make_safe(logger: logging.Logger) -> None:
    """Puts a SafeFormatter around the formatter of each handler of this logger that has none yet, and is not safe by
    itself.
    """
    for handler in logger.handlers:
        if not isinstance(handler.formatter, SafeFormatter | TextFormatter | JSONFormatter):
            handler.setFormatter(SafeFormatter(handler.formatter or logging.Formatter()))


def one_line(text: str) -> str:
    """The text with escape sequences, as in Python's literals, for everything that is not printable. Long text is
    cut.
    """
    text, left_out = _cut(text)
    return printable(text) + left_out


def quoted(text: str) -> str:
    """Like `one_line`, between quotation marks. Those of the text, and its backslashes, are escaped."""
    text, left_out = _cut(text)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(text)}{left_out}"'


def text_of_fields(fields: Mapping[str, Any]) -> str:
    """The fields as klog writes them, each after a space: ` pod="default/web" nodes=3`. Empty without fields."""
    return "".join([f" {key}={_text_value(value)}" for key, value in fields.items()])


def _text_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_text_value, value))}]"
    return quoted("" if value is None else str(value))


def _json_value(value: Any) -> Any:
    if isinstance(value, ObjectRef):
        named = {"name": one_line(value.name)}
        return {**named, "namespace": one_line(value.namespace)} if value.namespace else named
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    return value if value is None or isinstance(value, int | float) else one_line(str(value))


def _cut(text: str) -> tuple[str, str]:
    """Returns the text up to the limit, and a note about the rest."""
    left_out = len(text) - MESSAGE_LIMIT
    return (text[:MESSAGE_LIMIT], f" ... ({left_out} more characters)") if left_out > 0 else (text, "")


def printable(text: str) -> str:
    """The text with escape sequences, as in Python's literals, for everything that is not printable. Of any length."""
    if text.isprintable():  # false for control, format, surrogate and unassigned characters, and all line separators
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _severity(record: logging.LogRecord) -> str:
    if record.levelno >= logging.ERROR:
        return "ERROR"
    return "WARNING" if record.levelno >= logging.WARNING else "INFO"


def _error(record: logging.LogRecord) -> Mapping[str, str]:
    """The exception of a record, as a field."""
    error = record.exc_info[1] if record.exc_info else None
    return {} if error is None else {"err": described(error)}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    return "\n".join(filter(None, (trace, record.stack_info)))


def _indented(traceback: str) -> str:
    return "\n".join(f"{_INDENT}{line}" for line in _safe_lines(traceback))


def _safe_lines(traceback: str) -> list[str]:
    first, last = TRACEBACK_LINES
    lines = traceback.split("\n")
    left_out = len(lines) - first - last
    if left_out > 0:
        lines[first:-last] = [f"... ({left_out} more lines)"]
    return [one_line(line) for line in lines]
