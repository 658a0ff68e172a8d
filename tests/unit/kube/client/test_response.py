"""Reading responses of servers that lie: a corpus, and mutations of it, compared with h11's reading.

The fuzzer reads some thousand mutations. `PODWRIGHT_HTTP_CASES=1000000` sets another number.
"""

from __future__ import annotations

import os
import random

import pytest

from podwright.kube.client import response as module
from podwright.kube.client.response import ResponseError, ResponseReader
from support.http.h11_oracle import Reading, read_by_h11, read_by_us
from support.http.responses import CORPUS, LENIENT, chunked, head, sized

CASES = int(os.environ.get("PODWRIGHT_HTTP_CASES", "4000"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CORPUS])
def test_a_response_is_read_or_refused(case):
    found = read_by_us(case.data)
    if case.error:
        assert found.error, found
    else:
        assert found == Reading(case.status, case.body, case.keep)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CORPUS])
def test_a_response_in_pieces_is_read_in_the_same_way(case):
    whole = read_by_us(case.data)
    for seed in range(3):
        assert same(whole, read_by_us(case.data, random.Random(seed)))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CORPUS])
def test_h11_reads_the_same_or_refuses_what_is_harmless(case):
    compare(case.data)


def same(whole: Reading, pieces: Reading) -> bool:
    """Bytes after a response may come too late to be seen, and a server that lies may be found out earlier."""
    if whole.error or pieces.error:
        return bool(whole.error) == bool(pieces.error)
    return (whole.status, whole.body) == (pieces.status, pieces.body)


def compare(data: bytes) -> Reading:
    """Every answer of ours is h11's, unless h11 has one of the errors in LENIENT. llhttp refuses more than h11."""
    ours, theirs = read_by_us(data), read_by_h11(data)
    if not ours.error:
        if theirs.error:
            assert any(part in theirs.error for part in LENIENT), (data, theirs.error)
        else:
            assert (ours.status, ours.body) == (theirs.status, theirs.body), data
            assert theirs.keep or not ours.keep or data.endswith((b"\r", b"\n")), data
    return ours


PIECES = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b" ", b"\t", b":", b";", b",", b"-", b"+", b"0x", b"0", b"5", b"f", b"\xff",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"0\r\n\r\n", b"2\r\nhi\r\n", b"X: y\r\n",
)  # fmt: skip
SEEDS = [case.data for case in CORPUS if len(case.data) < 3_000]


def mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        end = min(end, at + rng.choice((1, 3, 20)))
        kind = rng.randrange(6)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            data[at:end] = b""
        elif kind == 2:
            data[at:end] = rng.choice(PIECES)
        elif kind == 3:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 4:
            other = rng.choice(SEEDS)
            data[at:] = other[rng.randint(0, len(other)) :]
        else:
            data[at:at] = data[at:end]
    return bytes(data)


@pytest.mark.timeout(0 if CASES > 100_000 else 300)
def test_mutated_responses_are_read_as_h11_reads_them_or_refused():
    rng = random.Random(13)
    answers = 0
    for _ in range(CASES):
        data = mutated(rng)
        ours = compare(data)
        assert same(ours, read_by_us(data, rng)), data
        answers += not ours.error
    assert CASES / 10 < answers < CASES * 9 / 10, "the mutations are neither all harmless nor all fatal"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        pytest.param(b"", b"HTTP/1.1 100 C\r\n\r\n", id="interim responses"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 100, id="a header"),
        pytest.param(chunked(end=b""), b"1;" + b"x" * 50, id="a chunk's line"),
        pytest.param(chunked(end=b"0\r\n"), b"X: y\r\n", id="trailers"),
        pytest.param(chunked(end=b""), b"1\r\nx\r\n", id="chunks"),
        pytest.param(head(), b"x" * 1000, id="a body"),
    ],
)
def test_whatever_a_server_sends_for_ever_is_refused_in_the_end(monkeypatch, start, more):
    monkeypatch.setattr(module, "BODY_LIMIT", 1 << 20)
    reader = ResponseReader()
    assert reader.feed(start) is None
    with pytest.raises(ResponseError):
        feed_repeatedly(reader, more, (1 << 20) // len(more) + 10)


def feed_repeatedly(reader, data, times):
    for _ in range(times):
        assert reader.feed(data) is None


def test_a_reader_reads_one_response_after_the_other():
    reader = ResponseReader()
    bodies = [b"one", b"two" * 1000, b""]
    for body in bodies:
        for data in (sized(body), chunked(b"%x\r\n%b\r\n" % (len(body), body)) if body else chunked()):
            answer = reader.feed(data)
            assert answer is not None
            assert (answer.body, reader.keep, reader.started) == (body, True, False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(b"7", 7.0, id="seconds"),
        pytest.param(b"  7  ", 7.0, id="with spaces"),
        pytest.param(b"-7", None, id="negative"),
        pytest.param(b"1e9", None, id="with an exponent"),
        pytest.param(b"9" * 400, None, id="for ever"),
        pytest.param(b"\xb2", None, id="a superscript"),
        pytest.param(b"Sun, 22 Nov 2026 08:53:12 GMT", None, id="a date"),
    ],
)
def test_retry_after_is_a_number_of_seconds(value, seconds):
    answer = ResponseReader().feed(sized(b"", b"Retry-After: " + value, start=b"HTTP/1.1 429 Slow down"))
    assert answer is not None
    assert answer.retry_after == seconds
