"""`dataclass` of the standard library, with methods that are compiled when they are first called.

All data classes of this package use it. The standard library writes each method as text and compiles it while the
module is imported. That was a quarter of the start of the process, and of 500 classes, a start makes objects of 70. A
class that derives from a data class is left to the standard library. An object of any class that derives from a frozen
one is frozen. There is no InitVar. Why: docs/adr/0024-methods-of-data-classes-compiled-late.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

__all__ = ["dataclass"]

_ORDER: Final = ("__lt__", "__le__", "__gt__", "__ge__")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, eq: bool = True, order: bool = False, frozen: bool = False, **layout: bool
    ) -> Callable[[type], type]:
        """`layout`: `slots`, `weakref_slot` and `kw_only`, as for the standard library's."""

        def decorate(cls: type) -> type:
            if any(map(dataclasses.is_dataclass, cls.__bases__)):
                return dataclasses.dataclass(eq=eq, order=order, frozen=frozen, **layout)(cls)
            given = {**vars(cls)}
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library derives one from the signature
            made = dataclasses.dataclass(init=False, repr=False, eq=False, **layout)(cls)
            made.__dataclass_params__.frozen = frozen
            slots = layout.get("slots", False)
            methods = {"__init__": {"init": True, "frozen": frozen, "slots": slots}, "__repr__": {"repr": True}}
            if eq:
                methods["__eq__"] = {"eq": True}
                methods["__hash__"] = {"unsafe_hash": True} if frozen else {}
            if order:
                methods |= {name: {"eq": True, "order": True} for name in _ORDER}
            for name, parts in methods.items():
                if given.get(name) is None:
                    setattr(made, name, _compiled_late(made, name, parts) if parts else None)
            if frozen:
                made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
            if frozen and slots:  # else copies and pickles have the attributes anyway, also those that are no fields
                made.__getstate__ = given.get("__getstate__", _state)
                made.__setstate__ = given.get("__setstate__", _set_state)
            return made

        return decorate


def _compiled_late(cls: type, name: str, parts: Mapping[str, bool]) -> Callable[..., Any]:
    """A method that replaces itself by the standard library's, when it is first called."""
    compiled: Callable[..., Any] | None = None

    def method(self: object, /, *args: Any, **named: Any) -> Any:
        nonlocal compiled
        if compiled is None:
            compiled = _compiled(cls, name, parts)
            if getattr(cls, name) is method:  # else it is wrapped
                setattr(cls, name, compiled)
        return compiled(self, *args, **named)

    return method


def _compiled(cls: Any, name: str, parts: Mapping[str, bool]) -> Any:
    """The method of a data class that has the same fields, and of the methods only these parts."""
    fields = [(each.name, each.type, each) for each in dataclasses.fields(cls)]
    kept = {each: getattr(cls, each) for each in ("__module__", "__doc__", "__post_init__") if hasattr(cls, each)}
    none: dict[str, Any] = {"init": False, "repr": False, "eq": False}
    method = vars(dataclasses.make_dataclass(cls.__name__, fields, namespace=kept, **{**none, **parts}))[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
