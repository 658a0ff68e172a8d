"""A corpus of HTTP responses, well-formed and hostile, with what a strict client makes of each.

Each row is a sentence, the bytes, and what is expected: the status and body of an answer, or a part of the error's
text. `KEPT` and `CLOSED` say whether another request may follow on the connection. An answer is `by_end` if it is
complete only when the server ends the connection. `LENIENT` has the errors of h11 of which llhttp makes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from podwright.kube.client import response as limits

KEPT, CLOSED = True, False
LINE = 1 << 14
"""Bytes of a long line."""


@dataclass(frozen=True)
class Case:
    """A response, and what is expected of it. `error`: a part of the error's text, if it is no answer."""

    name: str
    data: bytes
    status: int = 0
    body: bytes = b""
    keep: bool = KEPT
    error: str = ""
    by_end: bool = False


def head(*fields: bytes, start: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join((start, *fields, b"", b""))


def sized(body: bytes, *fields: bytes, start: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return head(*fields, b"Content-Length: %d" % len(body), start=start) + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", fields: tuple[bytes, ...] = ()) -> bytes:
    """Each chunk is given with its line."""
    return head(*fields, b"Transfer-Encoding: chunked") + b"".join(chunks) + end


def _statuses() -> list[Case]:
    codes = (200, 201, 202, 203, 299, 300, 301, 307, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504, 599)
    rows = [Case(f"status {code}", sized(b"x", start=b"HTTP/1.1 %d Text" % code), code, b"x") for code in codes]
    for code in (204, 304):
        start = b"HTTP/1.1 %d Text" % code
        rows += [
            Case(f"{code} without a length", head(start=start), code),
            Case(f"{code} with a length of zero", head(b"Content-Length: 0", start=start), code),
            Case(f"{code} with a length but no body", head(b"Content-Length: 5", start=start), code),
            Case(f"{code} with a body", sized(b"hello", start=start), code, keep=CLOSED),
            Case(
                f"{code} with chunks",
                head(b"Transfer-Encoding: chunked", start=start) + b"0\r\n\r\n",
                code,
                keep=CLOSED,
            ),
        ]
    return rows


def _start_lines() -> list[Case]:
    good = {
        "no reason": b"HTTP/1.1 200",
        "an empty reason": b"HTTP/1.1 200 ",
        "a long reason": b"HTTP/1.1 200 It went as well as it could",
        "a reason in Latin-1": b"HTTP/1.1 200 Tr\xe8s bien",
        "a tab in the reason": b"HTTP/1.1 200 a\tb",
    }
    bad = {
        "HTTP/2": b"HTTP/2.0 200 OK",
        "HTTP/1.2": b"HTTP/1.2 200 OK",
        "HTTP/0.9": b"HTTP/0.9 200 OK",
        "lower case": b"http/1.1 200 OK",
        "two spaces before the status": b"HTTP/1.1  200 OK",
        "a space before the line": b" HTTP/1.1 200 OK",
        "a status of two digits": b"HTTP/1.1 20 OK",
        "a status of four digits": b"HTTP/1.1 2000 OK",
        "a status of letters": b"HTTP/1.1 abc OK",
        "a negative status": b"HTTP/1.1 -20 OK",
        "status 000": b"HTTP/1.1 000 OK",
        "status 099": b"HTTP/1.1 099 OK",
        "status 600": b"HTTP/1.1 600 OK",
        "status 999": b"HTTP/1.1 999 OK",
        "a status in Arabic digits": b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK",
        "a line feed in the reason": b"HTTP/1.1 200 O\nK",
        "another protocol": b"SSH-2.0-OpenSSH_9.6",
        "an FTP banner": b"220 ready",
        "a request": b"GET / HTTP/1.1",
        "no line": b"",
    }
    return [Case(f"start line: {name}", sized(b"x", start=line), 200, b"x") for name, line in good.items()] + [
        Case(f"start line: {name}", sized(b"x", start=line), error="not") for name, line in bad.items()
    ]


def _lengths() -> list[Case]:
    name = b"Content-Length: "
    good = {
        "with a space before": b" 5",
        "with a tab before": b"\t5",
        "with spaces after": b"5  ",
        "with a leading zero": b"05",
        "with many leading zeros": b"000000000000005",
    }
    bad = {
        "negative": b"-5",
        "minus zero": b"-0",
        "with a plus": b"+5",
        "hexadecimal": b"0x5",
        "with an underscore": b"1_0",
        "a fraction": b"5.0",
        "with an exponent": b"5e0",
        "empty": b"",
        "a word": b"five",
        "in Arabic digits": b"\xd9\xa5",
        "with a superscript": b"\xb2",
        "two equal ones in a list": b"5, 5",
        "two different ones in a list": b"5, 6",
        "with a comma": b"5,",
        "with a space inside": b"0 5",
        "with a unit": b"5 bytes",
        "in quotes": b'"5"',
        "of a thousand digits": b"9" * 1000,
    }
    rows = [Case(f"a length {case}", head(name + value) + b"hello", 200, b"hello") for case, value in good.items()]
    rows += [
        Case(f"a length {case}", head(name + value) + b"hello", error="malformed length") for case, value in bad.items()
    ]
    return [
        *rows,
        Case("a length in lower case", head(b"content-length:5") + b"hello", 200, b"hello"),
        Case("a length in capitals", head(b"CONTENT-LENGTH:5") + b"hello", 200, b"hello"),
        Case("two equal lengths", head(name + b"5", name + b"5") + b"hello", error="two lengths"),
        Case("two different lengths", head(name + b"5", name + b"6") + b"hello", error="two lengths"),
        Case("two lengths of different case", head(name + b"5", b"CONTENT-LENGTH: 5") + b"hello", error="two lengths"),
        Case("a length far beyond memory", head(name + b"9" * 17) + b"hello", error="too long"),
        Case("a length above the limit", head(name + b"%d" % (limits.BODY_LIMIT + 1)), error="too long"),
        Case("a length below the body", head(name + b"3") + b"hello", 200, b"hel", keep=CLOSED),
        Case("a length above the body", head(name + b"9") + b"hello", error="lost within"),
        Case("a length and no body", head(name + b"9"), error="lost within"),
        Case("a length of zero with a body", head(name + b"0") + b"hello", 200, b"", keep=CLOSED),
        Case(
            "a space before the colon of a length", head(b"Content-Length : 5") + b"hello", error="not an HTTP/1 head"
        ),
        Case("a name that ends like a length", sized(b"hi", b"X-Content-Length: 9"), 200, b"hi"),
        Case("a value that looks like a length", sized(b"hi", b"X: Content-Length: 9"), 200, b"hi"),
        Case("no length", head() + b"all of it", 200, b"all of it", keep=CLOSED, by_end=True),
        Case("no length and no body", head(), 200, b"", keep=CLOSED, by_end=True),
    ]


def _encodings() -> list[Case]:
    good = {
        "in capitals": b"CHUNKED",
        "without a space": b"chunked",
        "with a tab": b"\tchunked",
        "with spaces": b"  chunked  ",
    }
    bad = {
        "gzip": b"gzip",
        "gzip and chunked": b"gzip, chunked",
        "chunked twice": b"chunked, chunked",
        "identity": b"identity",
        "chunked with a parameter": b"chunked;q=1",
        "in quotes": b'"chunked"',
        "a word with chunked in it": b"xchunked",
        "with a vertical tab": b"\x0bchunked",
        "empty": b"",
    }
    name, body = b"Transfer-Encoding:", b"2\r\nhi\r\n0\r\n\r\n"
    rows = [Case(f"transfer encoding {case}", head(name + value) + body, 200, b"hi") for case, value in good.items()]
    rows += [
        Case(
            f"transfer encoding {case}",
            head(name + value) + body,
            error="not an HTTP/1 head" if b"\x0b" in value else "unknown transfer encoding",
        )
        for case, value in bad.items()
    ]
    return [
        *rows,
        Case(
            "two transfer encodings",
            head(name + b"chunked", name + b"chunked") + body,
            error="unknown transfer encoding",
        ),
        Case(
            "a length before chunks",
            head(b"Content-Length: 12", name + b"chunked") + body,
            error="a length beside chunks",
        ),
        Case(
            "a length after chunks",
            head(name + b"chunked", b"Content-Length: 2") + body,
            error="a length beside chunks",
        ),
        Case(
            "chunks of HTTP/1.0",
            head(name + b"chunked", start=b"HTTP/1.0 200 OK") + body,
            error="unknown transfer encoding",
        ),
    ]


def _chunks() -> list[Case]:
    lines = {
        "in lower case": b"a",
        "in capitals": b"A",
        "with leading zeros": b"0000a",
        "with an extension": b"a;name=value",
        "with an extension in quotes": b'a;name="va lue"',
        "with two extensions": b"a;b;c=d",
    }
    bad = {
        "negative": b"-a",
        "minus one": b"-1",
        "minus zero": b"-0",
        "with a plus": b"+a",
        "with 0x": b"0xa",
        "with an underscore": b"0_a",
        "with a space before": b" a",
        "with a space inside": b"0 a",
        "empty": b"",
        "only an extension": b";a",
        "with a space before the extension": b"a ;b",
        "not hexadecimal": b"zz",
        "with a comma": b"a,a",
        "with a NUL": b"a\x00",
        "with spaces after": b"a  ",
        "with an empty extension": b"a;",
        "with a NUL in the extension": b"a;\x00",
        "with a carriage return in the extension": b"a;b\rc",
        "with a line feed only": b"a\n0123456789\r\n0\n",
    }
    ten = b"\r\n0123456789\r\n"
    rows = [Case(f"a chunk size {name}", chunked(line + ten), 200, b"0123456789") for name, line in lines.items()]
    rows += [
        Case(f"a chunk size {name}", chunked(line + ten), error="malformed chunk size") for name, line in bad.items()
    ]
    many = b"".join(b"1\r\n%c\r\n" % (97 + number % 26) for number in range(300))
    return [
        *rows,
        Case("no chunk but the last", chunked(), 200, b""),
        Case("two chunks", chunked(b"2\r\nhi\r\n", b"3\r\nyou\r\n"), 200, b"hiyou"),
        Case("many small chunks", chunked(many), 200, b"".join(b"%c" % (97 + n % 26) for n in range(300))),
        Case("a chunk that looks like the last", chunked(b"7\r\n0\r\n\r\nxy\r\n"), 200, b"0\r\n\r\nxy"),
        Case("a last chunk of many zeros", chunked(end=b"00000\r\n\r\n"), 200, b""),
        Case("a last chunk with an extension", chunked(end=b"0;a=b\r\n\r\n"), 200, b""),
        Case("a chunk longer than its size", chunked(b"2\r\nhello\r\n"), error="longer than its size"),
        Case("a chunk shorter than its size", chunked(b"9\r\nhello\r\n"), error="longer than its size"),
        Case("a chunk that ends with a line feed only", chunked(b"2\r\nhi\n"), error="longer than its size"),
        Case("a chunk without a line end", chunked(b"2\r\nhi", b"2\r\nyo\r\n"), error="longer than its size"),
        Case("a chunk beyond memory", chunked(b"f" * 15 + b"\r\nhi\r\n"), error="too long"),
        Case("a chunk above the limit", chunked(b"%x\r\nhi\r\n" % (limits.BODY_LIMIT + 1)), error="too long"),
        Case("a chunk line that does not end", chunked(b"2" * 2000, end=b""), error="line is too long"),
        Case("no last chunk", chunked(b"2\r\nhi\r\n", end=b""), error="lost within"),
        Case("half a last chunk", chunked(b"2\r\nhi\r\n", end=b"0\r\n"), error="lost within"),
        Case("half a chunk", chunked(b"5\r\nhe", end=b""), error="lost within"),
        Case("no chunks", chunked(end=b""), error="lost within"),
        Case("half a chunk size", chunked(b"5", end=b""), error="lost within"),
    ]


def _trailers() -> list[Case]:
    def last(*fields: bytes) -> bytes:
        return chunked(b"2\r\nhi\r\n", end=b"0\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n")

    return [
        Case("a trailer", last(b"X-Sum: 1"), 200, b"hi"),
        Case("two trailers", last(b"X-Sum: 1", b"X-Other: 2"), 200, b"hi"),
        Case("a trailer that is a length", last(b"Content-Length: 99"), error="trailers about"),
        Case("a trailer that is an encoding", last(b"Transfer-Encoding: gzip"), error="trailers about"),
        Case("a trailer without a colon", last(b"nonsense"), error="malformed trailers"),
        Case("a trailer without a name", last(b": 1"), error="malformed trailers"),
        Case("a folded trailer", last(b"X: 1", b" 2"), error="malformed trailers"),
        Case("a trailer with a NUL", last(b"X: \x00"), error="malformed trailers"),
        Case("trailers that do not end", chunked(end=b"0\r\nX: 1\r\n"), error="lost within"),
        Case("trailers that are too long", last(*[b"X: " + b"y" * 10_000] * 7), error="trailers are too long"),
    ]


def _fields() -> list[Case]:
    good = {
        "an empty value": b"X:",
        "a value of spaces": b"X:   ",
        "a value in Latin-1": b"X: caf\xe9",
        "a value in UTF-8": "X: naïve".encode(),
        "a tab inside a value": b"X: a\tb",
        "every character of a name": b"!#$%&'*+-.^_`|~09AZaz: 1",
        "a colon in a value": b"X: a:b:c",
    }
    bad = {
        "no colon": b"nonsense",
        "no name": b": 1",
        "a space in a name": b"X Y: 1",
        "a space before the colon": b"X : 1",
        "a name in brackets": b"(X): 1",
        "a name in Latin-1": b"caf\xe9: 1",
        "a NUL in a value": b"X: a\x00b",
        "a bell in a value": b"X: a\x07b",
        "a delete character in a value": b"X: a\x7fb",
        "a carriage return in a value": b"X: a\rb",
        "a line feed in a value": b"X: a\nY: b",
        "a folded line": b"X: a\r\n b",
        "a folded line with a tab": b"X: a\r\n\tb",
        "a folded length": b"Content-Length:\r\n 2",
        "a folded first line": b" X: 1",
    }
    ends = {
        "two line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    }
    return [
        *(Case(f"a header: {name}", sized(b"hi", field), 200, b"hi") for name, field in good.items()),
        *(Case(f"a header: {name}", sized(b"hi", field), error="not an HTTP/1 head") for name, field in bad.items()),
        Case("two line feeds end the head", ends["two line feeds"], error="lost within"),
        Case("a line end before the head", b"\r\n" + sized(b"hi"), 200, b"hi"),
        Case("many headers", sized(b"hi", *[b"X: 1"] * 250), 200, b"hi"),
        Case("a long header", sized(b"hi", b"X: " + b"y" * 12_000), 200, b"hi"),
        Case("a head that is too long", sized(b"hi", *[b"X: " + b"y" * 10_000] * 7), error="head is too long"),
        Case("a head that does not end", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, error="head is too long"),
        Case("a start line that does not end", b"HTTP/1.1 200 " + b"x" * 70_000, error="head is too long"),
    ]


def _connections() -> list[Case]:
    kept = (b"keep-alive", b"Keep-Alive, X", b"", b"closed", b"x-close", b"not-close, other")
    closed = (b"close", b"Close", b"CLOSE", b"keep-alive, close", b"close,x", b" close ")
    rows = [
        Case(f"Connection: {value.decode()!r}", sized(b"hi", b"Connection: " + value), 200, b"hi", keep=keep)
        for values, keep in ((kept, KEPT), (closed, CLOSED))
        for value in values
    ]
    return [
        *rows,
        Case("two headers Connection", sized(b"hi", b"Connection: x", b"Connection: close"), 200, b"hi", keep=CLOSED),
        Case("HTTP/1.0", sized(b"hi", start=b"HTTP/1.0 200 OK"), 200, b"hi", keep=CLOSED),
        Case(
            "HTTP/1.0 kept", sized(b"hi", b"Connection: keep-alive", start=b"HTTP/1.0 200 OK"), 200, b"hi", keep=CLOSED
        ),
        Case("a body and bytes after it", sized(b"hi") + b"x", 200, b"hi", keep=CLOSED),
        Case("a body and a line end after it", sized(b"hi") + b"\r\n", 200, b"hi", keep=KEPT),
        Case("two responses", sized(b"hi") + sized(b"evil"), 200, b"hi", keep=CLOSED),
        Case("chunks and bytes after them", chunked(b"2\r\nhi\r\n") + b"x", 200, b"hi", keep=CLOSED),
        Case("chunks and a response after them", chunked(b"2\r\nhi\r\n") + sized(b"evil"), 200, b"hi", keep=CLOSED),
        Case("nothing", b"", error="was lost"),
        Case("a part of the start line", b"HTTP/1.1 20", error="lost within"),
        Case("a part of the head", b"HTTP/1.1 200 OK\r\nContent-Le", error="lost within"),
    ]


def _blanks() -> list[Case]:
    """Values with blanks in the middle or at the end, in lines of as many bytes as are allowed."""

    def line(start: bytes, end: bytes) -> bytes:
        blanks = LINE - len(start) - len(end)
        return start + (b" \t" * blanks)[:blanks] + end

    def case(start: bytes, end: bytes, name: str, *, keep: bool) -> Case:
        return Case(f"blanks up to the limit {name}", sized(b"hi", line(start, end)), 200, b"hi", keep=keep)

    return [
        case(b"Connection:", b"", "and no option", keep=KEPT),
        case(b"Connection: a", b"b", "within an option", keep=KEPT),
        case(b"Connection: close", b"", "after an option", keep=CLOSED),
        case(b"Connection:", b"close", "before an option", keep=CLOSED),
        case(b"Connection: a,", b"close", "between options", keep=CLOSED),
        case(b"Retry-After: 1", b"2", "within a delay", keep=KEPT),
        Case(
            "blanks up to the limit within a length",
            head(line(b"Content-Length: 1", b"2")) + b"hi",
            error="malformed length",
        ),
        Case("blanks up to the limit after a length", head(line(b"Content-Length: 2", b"")) + b"hi", 200, b"hi"),
        Case(
            "blanks up to the limit within an encoding",
            head(line(b"Transfer-Encoding: chunked", b"x")) + b"2\r\nhi\r\n0\r\n\r\n",
            error="unknown transfer encoding",
        ),
        Case("blanks up to the limit in a trailer", chunked(end=line(b"0\r\nX: a", b"b\r\n\r\n")), 200, b""),
    ]


def _interim() -> list[Case]:
    def interim(code: int, *fields: bytes) -> bytes:
        return head(*fields, start=b"HTTP/1.1 %d Wait" % code)

    codes = (100, 102, 103, 199)
    return [
        *(Case(f"a {code} before the response", interim(code) + sized(b"hi"), 200, b"hi") for code in codes),
        *(
            Case(f"a {code} and a {other}", interim(code) + interim(other) + sized(b"hi"), 200, b"hi")
            for code, other in product((100, 103), repeat=2)
        ),
        Case("a 103 with headers", interim(103, b"Link: </x>", b"X: y") + sized(b"hi"), 200, b"hi"),
        Case(
            "a 100 with a length",
            interim(100, b"Content-Length: 5") + sized(b"hi"),
            error="interim response with a body",
        ),
        Case("a 100 with chunks", interim(100, b"Transfer-Encoding: chunked") + sized(b"hi"), error="with a body"),
        Case("a 100 that closes", interim(100, b"Connection: close") + sized(b"hi"), error="close"),
        Case("a 100 with a body", interim(100) + b"hello" + sized(b"hi"), error="not"),
        Case(
            "a 101",
            interim(101, b"Upgrade: websocket", b"Connection: upgrade") + sized(b"hi"),
            error="another protocol",
        ),
        Case("a 100 and nothing else", interim(100), error="lost within"),
        Case("endless 100s", interim(100) * 5_000, error="too many interim"),
        Case("a malformed 100", interim(100, b"nonsense") + sized(b"hi"), error="not an HTTP/1 head"),
    ]


CORPUS: list[Case] = [
    *_statuses(),
    *_start_lines(),
    *_lengths(),
    *_encodings(),
    *_chunks(),
    *_trailers(),
    *_fields(),
    *_connections(),
    *_blanks(),
    *_interim(),
]

LENIENT = ("illegal status line", "no response line received", "bad Content-Length")
"""Errors of h11 where llhttp reads an answer: a NUL in the reason, a line end before the response, a length of more
than 20 digits.
"""
