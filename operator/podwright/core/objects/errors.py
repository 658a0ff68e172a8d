"""The error that every parser of Kubernetes objects raises."""

from __future__ import annotations


class InvalidObjectError(ValueError):
    """An object, or one field of it, cannot be understood.

    `where` is the field's path inside the object; `kind` and `name` are filled in by the outermost parser.
    """

    def __init__(self, where: str, problem: str, *, kind: str = "", name: str = "") -> None:
        self.where = where
        self.problem = problem
        self.kind = kind
        self.name = name
        super().__init__(where, problem)

    def of(self, kind: str, name: str) -> InvalidObjectError:
        """The same error, naming the object it was found in."""
        return InvalidObjectError(self.where, self.problem, kind=kind, name=name)

    def __str__(self) -> str:
        owner = f"{self.kind} {self.name}: " if self.kind else ""
        return f"{owner}{self.where}: {self.problem}"
