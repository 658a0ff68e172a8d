"""Log lines: one line per message, no control characters, bounded length, whatever users wrote into their objects.

Texts and fields are those of klog's and component-base's formats.
"""

import io
import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._core.actions import loggers

from podwright.core.objects.pod import parse_pod
from podwright.engine.records.log_fields import ITEMS_LIMIT, V2, V3, ObjectRef, fields, level_of
from podwright.kube.log_format import (
    MESSAGE_LIMIT,
    TRACEBACK_LINES,
    JSONFormatter,
    TextFormatter,
    configure_logging,
    make_safe,
    module_names,
    one_line,
)
from support.objects.builders import make_pod


@pytest.fixture
def log_to(request):
    """Returns a logger with one handler of this formatter, and what it writes."""
    logger = logging.getLogger(request.node.nodeid)
    logger.propagate = False

    def make(formatter):
        written = io.StringIO()
        handler = logging.StreamHandler(written)
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        make_safe(logger)
        return logger, written

    yield make
    logger.handlers.clear()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("pod a/b: waits, 3 °C", "pod a/b: waits, 3 °C", id="printable text stays"),
        pytest.param("a\nb\r\n", "a\\nb\\r\\n", id="line breaks"),
        pytest.param("\x1b[31mred\x07\x9b", "\\x1b[31mred\\x07\\x9b", id="terminal escapes of both kinds"),
        pytest.param("a\u2028b\u2029c\x85", "a\\u2028b\\u2029c\\x85", id="line separators of Unicode"),
        pytest.param("\u202egnp.exe\u2066\u200f", "\\u202egnp.exe\\u2066\\u200f", id="marks that change the direction"),
        pytest.param("a\u200bb\ufeff", "a\\u200bb\\ufeff", id="characters without width"),
        pytest.param("\ud800", "\\ud800", id="half of a surrogate pair, which could not be written"),
        pytest.param("\U000e0041", "\\U000e0041", id="tags"),
    ],
)
def test_a_message_is_one_line_of_printable_characters(text, line):
    assert one_line(text) == line


@given(st.text(max_size=3 * MESSAGE_LIMIT))
def test_no_text_breaks_the_line_or_its_length(text):
    line = one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    assert len(line) <= 10 * MESSAGE_LIMIT + 40  # the longest escape sequence has ten characters
    line.encode()


def test_a_long_message_is_cut_and_says_so(log_to):
    logger, written = log_to(logging.Formatter("%(levelname)s %(message)s"))
    logger.warning("%s", "x" * 1_000_000)
    assert written.getvalue() == f"WARNING {'x' * MESSAGE_LIMIT} ... ({1_000_000 - MESSAGE_LIMIT} more characters)\n"


def test_a_forged_line_stays_part_of_its_message(log_to):
    logger, written = log_to(logging.Formatter("%(levelname)s %(message)s"))
    logger.warning("pod %s: %s", "a/b", "no\nINFO everything is fine 100%")
    assert written.getvalue() == "WARNING pod a/b: no\\nINFO everything is fine 100%\n"


def test_a_traceback_keeps_its_lines_and_none_looks_like_the_beginning_of_a_log_line(log_to):
    logger, written = log_to(logging.Formatter("%(levelname)s %(message)s"))
    try:
        raise ValueError("bad\nERROR forged \x1b[0m")
    except ValueError:
        logger.exception("failed")
    first, *trace = written.getvalue().splitlines()
    assert first == "ERROR failed"
    assert trace[0] == "    Traceback (most recent call last):"
    assert any(__file__ in line and "line" in line for line in trace)
    assert trace[-2:] == ["    ValueError: bad", "    ERROR forged \\x1b[0m"]
    assert all(line.startswith("    ") for line in trace)


def test_a_long_traceback_keeps_its_beginning_and_its_end(log_to):
    logger, written = log_to(logging.Formatter("%(message)s"))
    try:
        raise ValueError("\n".join(map(str, range(1_000))))
    except ValueError:
        logger.exception("failed")
    lines = written.getvalue().splitlines()
    assert len(lines) == 1 + sum(TRACEBACK_LINES) + 1
    assert lines[1] == "    Traceback (most recent call last):"
    assert lines[-1] == "    999"
    assert sum("more lines" in line for line in lines) == 1


def test_other_handlers_get_the_record_as_it_was(log_to):
    logger, _ = log_to(logging.Formatter())
    records = []
    plain = logging.Handler()
    plain.emit = records.append
    logger.addHandler(plain)
    logger.warning("a\n%s", "b")
    assert [(record.getMessage(), record.message) for record in records] == [("a\nb", "a\nb")]


@pytest.mark.parametrize("log_format", list(loggers.LogFormat))
@pytest.mark.parametrize("prefix", [True, False])
def test_each_log_format_of_kopf_is_made_safe(log_to, log_format, prefix):
    logger, written = log_to(loggers.make_formatter(log_format=log_format, log_prefix=prefix))
    try:
        raise ValueError("bad\nforged")
    except ValueError:
        logger.exception("100%% of %s", "a\nb\u202e", extra={"k8s_ref": {"namespace": "ns", "name": "pod"}})
    text = written.getvalue()
    if log_format is loggers.LogFormat.JSON:
        line = json.loads(text)
        assert line["message"].endswith("100% of a\\nb\\u202e")
        assert "ValueError: bad" in line["exc_info"]
        return
    first, *trace = text.splitlines()
    assert first.endswith("100% of a\\nb\\u202e")
    assert ("[ns/pod]" in first) == prefix
    assert trace[-1] == "    forged"


def test_a_handler_is_made_safe_once(log_to):
    logger, _ = log_to(logging.Formatter())
    before = [handler.formatter for handler in logger.handlers]
    make_safe(logger)
    assert [handler.formatter for handler in logger.handlers] == before


HEADER = re.compile(r"^([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_log_format\.py:\d+\] (.*)$")
"""klog's header: severity, month and day, time with microseconds, process, file and line."""


def without_header(line):
    return HEADER.match(line.rstrip("\n"))[2]


@pytest.mark.parametrize(
    ("level", "severity"),
    [(logging.CRITICAL, "E"), (logging.ERROR, "E"), (logging.WARNING, "W"), (logging.INFO, "I"), (V3, "I")],
)
def test_a_text_line_has_klogs_header(log_to, level, severity):
    logger, written = log_to(TextFormatter())
    logger.setLevel(1)
    logger.log(level, "a %s", "message")
    assert HEADER.match(written.getvalue().rstrip("\n")).groups() == (severity, '"a message"')


@pytest.mark.parametrize(
    ("value", "text", "in_json"),
    [
        pytest.param(ObjectRef("web", "ns"), '"ns/web"', {"name": "web", "namespace": "ns"}, id="an object"),
        pytest.param(ObjectRef("n"), '"n"', {"name": "n"}, id="an object without a namespace"),
        pytest.param("a b", '"a b"', "a b", id="text"),
        pytest.param('say "no" \\', r'"say \"no\" \\"', r'say "no" \ '.strip(), id="quotation marks and backslashes"),
        pytest.param("a\nI0101 forged", r'"a\nI0101 forged"', r"a\nI0101 forged", id="a line break"),
        pytest.param("\x1b[31m\u202e", r'"\x1b[31m\u202e"', r"\x1b[31m\u202e", id="escapes for terminals"),
        pytest.param(3, "3", 3, id="a number"),
        pytest.param(1.5, "1.5", 1.5, id="a fraction"),
        pytest.param(True, "true", True, id="a truth value"),
        pytest.param(None, '""', None, id="nothing"),
        pytest.param(["a", 1], '["a",1]', ["a", 1], id="a list"),
        pytest.param(ValueError("bad\n"), r'"bad\n"', r"bad\n", id="an exception"),
    ],
)
def test_fields_in_both_formats(log_to, value, text, in_json):
    logger, written = log_to(TextFormatter())
    logger.warning("message", extra=fields(first=1, key=value))
    assert without_header(written.getvalue()) == f'"message" first=1 key={text}'
    logger.handlers.clear()
    logger, written = log_to(JSONFormatter())
    logger.warning("message", extra=fields(key=value))
    assert json.loads(written.getvalue())["key"] == in_json


def test_a_pod_is_a_field_with_namespace_and_name(log_to):
    logger, written = log_to(JSONFormatter())
    logger.warning("message", extra=fields(pod=parse_pod(make_pod("web", namespace="ns")), node="n"))
    line = json.loads(written.getvalue())
    assert (line["pod"], line["node"]) == ({"name": "web", "namespace": "ns"}, "n")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.INFO, {"v": 0, "severity": "INFO"}),
        (V3, {"v": 3, "severity": "INFO"}),
        (logging.WARNING, {"v": 0, "severity": "WARNING"}),
        (logging.ERROR, {"severity": "ERROR"}),
    ],
)
def test_a_json_line_has_the_keys_of_component_base(log_to, level, expected):
    logger, written = log_to(JSONFormatter())
    logger.setLevel(1)
    record = logger.makeRecord("name", level, __file__, 7, "a message", (), None)
    logger.handle(record)
    (text,) = written.getvalue().splitlines()
    line = json.loads(text)
    assert line.pop("ts") == pytest.approx(record.created * 1e3)
    assert line == {"caller": "kube/test_log_format.py:7", "msg": "a message", **expected}


@pytest.mark.parametrize("formatter", [TextFormatter(), JSONFormatter()])
def test_an_exception_is_a_field_and_keeps_its_traceback(log_to, formatter):
    logger, written = log_to(formatter)
    try:
        raise ValueError("bad\nE0101 forged")
    except ValueError:
        logger.exception("failed", extra=fields(node="n"))
    first, *trace = written.getvalue().splitlines()
    if isinstance(formatter, JSONFormatter):
        line = json.loads(first)
        assert (line["node"], line["err"], trace) == ("n", r"ValueError: bad\nE0101 forged", [])
        trace = line["stacktrace"].splitlines()
        assert trace[0] == "Traceback (most recent call last):"
    else:
        assert without_header(first) == r'"failed" node="n" err="ValueError: bad\nE0101 forged"'
        assert all(each.startswith("    ") for each in trace)
    assert [each.strip() for each in trace[-2:]] == ["ValueError: bad", "E0101 forged"]


@given(st.text(max_size=2 * MESSAGE_LIMIT), st.sampled_from([TextFormatter(), JSONFormatter()]))
def test_no_field_breaks_a_line_or_its_length(text, formatter):
    record = logging.LogRecord("name", logging.INFO, "/a/b.py", 1, "%s", (text,), None)
    record.__dict__.update(fields(key=text, items=[text], pod=ObjectRef(text, "ns")))
    line = formatter.format(record)
    assert line.isprintable()
    # JSON escapes the backslashes of escape sequences once more.
    assert len(line) <= 4 * (20 * MESSAGE_LIMIT + 40) + 200
    line.encode()


def test_a_long_list_is_cut(log_to):
    logger, written = log_to(TextFormatter())
    logger.warning("message", extra=fields(items=list(range(10_000))))
    items = without_header(written.getvalue()).partition("[")[2].split(",")
    assert items == [*map(str, range(ITEMS_LIMIT)), '"…"]']


def test_formats_without_fields_get_them_in_the_message(log_to):
    logger, written = log_to(logging.Formatter("%(message)s"))
    logger.warning("message", extra=fields(pod=ObjectRef("web", "ns"), err="no\n"))
    assert written.getvalue() == 'message pod="ns/web" err="no\\n"\n'


class TestVerbosity:
    @pytest.fixture(autouse=True)
    def _loggers_as_before(self, monkeypatch):
        for handler in logging.getLogger().handlers:
            monkeypatch.setattr(handler, "formatter", handler.formatter)
        loggers = [logging.getLogger(), *(logging.getLogger(name) for name in module_names())]
        levels = [logger.level for logger in loggers]
        yield
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

    @pytest.mark.parametrize(
        ("verbosity", "level", "shown", "hidden"),
        [
            pytest.param(0, logging.INFO, logging.INFO, logging.INFO - 1, id="the default"),
            pytest.param(2, logging.INFO, V2, V3, id="changes of state"),
            pytest.param(3, logging.INFO, V3, level_of(4), id="decisions"),
            pytest.param(10, logging.INFO, logging.DEBUG, logging.DEBUG - 1, id="as much as debug"),
            pytest.param(0, logging.DEBUG, logging.DEBUG, logging.DEBUG - 1, id="debug"),
            pytest.param(0, logging.WARNING, logging.WARNING, logging.INFO, id="only warnings"),
            pytest.param(1_000, logging.INFO, 1, 0, id="everything"),
        ],
    )
    def test_it_is_a_threshold(self, verbosity, level, shown, hidden):
        configure_logging("text", verbosity, (), level)
        log = logging.getLogger("podwright.engine.engine")
        assert (log.isEnabledFor(shown), log.isEnabledFor(hidden)) == (True, False)

    @pytest.mark.parametrize(
        ("patterns", "shown"),
        [
            pytest.param([("decision_log", 3)], {"log"}, id="a file"),
            pytest.param([("decision_*", 3)], {"log", "annotation"}, id="several files"),
            pytest.param([("podwright.engine.records.decision_log", 3)], {"log"}, id="with packages"),
            pytest.param([("decision_log", 0), ("decision_*", 3)], {"annotation"}, id="the first that matches counts"),
            pytest.param([("nothing", 3)], set(), id="no file"),
        ],
    )
    def test_modules_have_their_own(self, patterns, shown):
        configure_logging("text", 0, patterns)
        found = {name for name in module_names() if logging.getLogger(name).isEnabledFor(V3)}
        assert found == {f"podwright.engine.records.decision_{name}" for name in shown}

    def test_modules_have_the_names_of_their_loggers(self):
        assert {"podwright.engine.records.decision_log", "podwright.kube", "podwright.cli.commands.run"} <= set(
            module_names()
        )
