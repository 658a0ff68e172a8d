"""The values of an expression on many nodes at once.

An operand is a Scalar or a Failure, which are the same on all nodes, or a Vec with one entry for each row that is asked
for. A Vec of numbers or bools holds them itself; any other one holds positions in a list of values, of which there are
few different ones. An entry may be an error instead of a value: its code stands in `errors`. Invariant: where `errors`
is not 0, nothing reads the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.values import SameKey, Uint
from podwright.core.objects.dataclass import dataclass

Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]
"""int32[rows]: 0, or the code of an error in ErrorTexts."""
Rows = NDArray[np.intp]


class VecKind(Enum):
    """The data of a Vec: bool, int64, uint64 or float64 values, or int32 positions in its table."""

    BOOL = np.bool_
    INT = np.int64
    UINT = np.uint64
    DOUBLE = np.float64
    TABLE = np.int32

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Scalar:
    """The same value on all nodes."""

    value: object


@dataclass(frozen=True, slots=True)
class ColumnFailure:
    """The same error on all nodes."""

    code: int


@dataclass(slots=True)
class Vec:
    """See the module. `data`: [rows]; `errors`: int32[rows], None without errors. `table`: only of VecKind.TABLE."""

    kind: VecKind
    data: NDArray[Any]
    errors: Codes | None = None
    table: Sequence[object] = ()

    def at(self, rows: Rows) -> Vec:
        """The entries of these rows."""
        return Vec(self.kind, self.data[rows], None if self.errors is None else self.errors[rows], self.table)


Operand = Scalar | ColumnFailure | Vec

MAX_TEXTS: Final = 4_096
MAX_TEXT: Final = 160
TOO_MANY: Final = "too many different errors"


class ErrorTexts:
    """The texts of errors by code, which starts at 1. After MAX_TEXTS different ones, all others share one text."""

    def __init__(self) -> None:
        self._texts = ["", TOO_MANY]
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The code of an error's text, of which MAX_TEXT characters are kept."""
        text = shortened(text)
        code = self._codes.get(text)
        if code is None:
            if len(self._texts) > MAX_TEXTS:
                return 1
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def text(self, code: int) -> str:
        return self._texts[code]

    @property
    def full(self) -> bool:
        """True if new texts get no code of their own any more."""
        return len(self._texts) > MAX_TEXTS


def shortened(text: str) -> str:
    """The text in one printable line of MAX_TEXT characters at most."""
    found = text[: MAX_TEXT + 1]
    if not found.isprintable():
        found = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in found)
    return found if len(found) <= MAX_TEXT else f"{found[: MAX_TEXT - 3]}..."


def held_bytes(value: object) -> int:
    """The memory of texts, lists and maps, each counted once, and of what stands in them."""
    found, seen, left = 0, set[int](), [value]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        found += getsizeof(each)
        if isinstance(each, list | tuple):
            left.extend(each)
        elif isinstance(each, SameKey):
            left.append(each.value)
        elif isinstance(each, Mapping):
            left.extend(each.keys())
            left.extend(each.values())
    return found


_KINDS: Final[dict[type, VecKind]] = {bool: VecKind.BOOL, int: VecKind.INT, Uint: VecKind.UINT, float: VecKind.DOUBLE}


def kind_of(values: Sequence[object]) -> VecKind:
    """The kind of a Vec that can hold these values."""
    found = {value.__class__ for value in values}
    return _KINDS.get(found.pop(), VecKind.TABLE) if len(found) == 1 else VecKind.TABLE


def joined(*errors: Codes | None) -> Codes | None:
    """The first error of each row, in this order."""
    found: Codes | None = None
    for codes in errors:
        if codes is not None:
            found = codes if found is None else np.where(found != 0, found, codes)
    return found


def failing(code: int, where: Bools, rest: Codes | None = None) -> Codes | None:
    """The errors `rest`, and `code` in the rows `where` that have none."""
    if not where.any():
        return rest
    new = where.astype(np.int32)
    new *= code
    return joined(rest, new)


def as_vec(operand: Operand, rows: int) -> Vec:
    """The operand as a Vec with this many entries."""
    match operand:
        case Vec():
            return operand
        case ColumnFailure():
            return Vec(VecKind.BOOL, np.zeros(rows, np.bool_), np.full(rows, operand.code, np.int32))
    kind = kind_of((operand.value,))
    if kind is VecKind.TABLE:
        return Vec(kind, np.zeros(rows, np.int32), table=(operand.value,))
    return Vec(kind, np.full(rows, operand.value, kind.value))


def value_at(vec: Vec, position: int) -> object:
    """The value of an entry without error, as a value of CEL."""
    match vec.kind:
        case VecKind.TABLE:
            return vec.table[vec.data[position]]
        case VecKind.UINT:
            return Uint(vec.data[position])
    return vec.data[position].item()
