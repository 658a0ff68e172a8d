"""Text as Go's `%q` writes it, which errors of Kubernetes' libraries do."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_SHOWN: Final = 200


def quoted(text: str, shown: int = _SHOWN) -> str:
    """In double quotes, with escapes for what cannot be printed. Texts of more than `shown` code points are cut."""
    return '"' + "".join(map(_escaped, text[:shown])) + ("…" if len(text) > shown else "") + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
