"""The error that every parser of Kubernetes objects raises, and errors put into words."""

from __future__ import annotations

from podwright.core.objects.control_flow import passes_through


class InvalidObjectError(ValueError):
    """An object, or one of its fields, is invalid.

    `where` is the field's path inside the object. The outermost parser adds `kind` and `name`.
    """

    def __init__(self, where: str, problem: str, *, kind: str = "", name: str = "") -> None:
        self.where = where
        self.problem = problem
        self.kind = kind
        self.name = name
        super().__init__(where, problem)

    def in_object(self, kind: str, name: str) -> InvalidObjectError:
        """The same error with the object that has the field."""
        return InvalidObjectError(self.where, self.problem, kind=kind, name=name)

    def __str__(self) -> str:
        owner = f"{self.kind} {self.name}: " if self.kind else ""
        return f"{owner}{self.where}: {self.problem}"


def described(error: BaseException) -> str:
    """The type and text of an exception that other code raised: `ValueError: no such key`. The text of some exceptions
    raises itself.
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except BaseException as other:
        if passes_through(other):
            raise
        return f"{name} (its text raises {type(other).__name__})"
