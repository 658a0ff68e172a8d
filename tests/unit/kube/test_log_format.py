"""Log lines: one line per message, no control characters, bounded length, whatever users wrote into their objects."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._core.actions import loggers

from podwright.kube.log_format import MESSAGE_LIMIT, TRACEBACK_LINES, make_safe, one_line


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
