"""Semantic versions in expressions. Source of the rules and texts: `github.com/blang/semver/v4`, which Kubernetes
uses.
"""

from __future__ import annotations

import re
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.library.go_text import quoted
from podwright.core.cel.values import MAX_UINT, Opaque, no_such_overload
from podwright.core.objects.dataclass import dataclass

_NUMBER: Final = re.compile(r"[0-9]*", re.ASCII)
_WORD: Final = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_MAX_DIGITS: Final = 20

PreRelease = tuple[str | int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Semver(Opaque):
    """A version. `pre` has the parts of its pre-release: int where all digits, otherwise str. `build` has no meaning
    for its order.
    """

    cel_type = types.SEMVER
    major: int
    minor: int
    patch: int
    pre: PreRelease = ()
    build: tuple[str, ...] = ()

    def equals(self, other: object) -> bool:
        """cel-go compares with versions only."""
        if not isinstance(other, Semver):
            raise no_such_overload()
        return self.compare(other) == 0

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1, by the rules of semver.org."""
        mine = (self.major, self.minor, self.patch)
        theirs = (other.major, other.minor, other.patch)
        if mine != theirs:
            return 1 if mine > theirs else -1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        a, b = ([(type(part) is str, part) for part in version.pre] for version in (self, other))
        return (a > b) - (a < b)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(map(str, self.pre))
        return text + "+" + ".".join(self.build) if self.build else text


def read_semver(text: str) -> Semver:
    """Raises EvaluationError with Kubernetes' text if the text is not a version."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major", "Major")
    minor = _number(parts[1], "minor", "Minor")
    rest, has_build, build = parts[2].partition("+")
    patch, has_pre, pre = rest.partition("-")
    number = _number(patch, "patch", "Patch")
    pre_parts = tuple(map(_pre_release, pre.split("."))) if has_pre else ()
    build_parts = tuple(map(_build, build.split("."))) if has_build else ()
    return Semver(major, minor, number, pre_parts, build_parts)


def normalized(text: str) -> str:
    """Drops a leading `v` and leading zeros, and adds missing minor and patch numbers. Raises EvaluationError for a
    pre-release without a patch number.
    """
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part.encode()) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(text: str, name: str, title: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{title} number must not contain leading zeroes {quoted(text)}")
    return _parsed(text)


def _parsed(text: str) -> int:
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > _MAX_DIGITS or int(text) > MAX_UINT:
        raise EvaluationError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _pre_release(text: str) -> str | int:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
        return _parsed(text)
    if not _WORD.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not _WORD.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in build meta data {quoted(text)}")
    return text
