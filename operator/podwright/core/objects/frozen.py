"""FrozenDict: a dict that cannot be changed, for parts of objects that plugins see. Reading it costs what reading a
dict costs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_READ_ONLY: Final = "is read-only: the objects of the cluster change only by watch events"


def _refuse(self: object, *_args: Any, **_more: Any) -> NoReturn:
    raise TypeError(f"this {type(self).__name__} {_READ_ONLY}")


class FrozenDict(dict[K, V]):
    """See the module. Raises TypeError for each change."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, _memo: Any) -> FrozenDict[K, V]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class FrozenBody(FrozenDict[str, Any]):
    """A JSON object in which nothing can be changed. Its copies can be."""

    __slots__ = ()

    def __copy__(self) -> Any:
        return dict(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}


class FrozenList(list[Any]):
    """A JSON array in which nothing can be changed. Its copies can be."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


def frozen(value: Any) -> Any:
    """A copy of a JSON value in which nothing can be changed."""
    if isinstance(value, Mapping):
        return FrozenBody({key: frozen(item) for key, item in value.items()})
    return FrozenList([frozen(item) for item in value]) if isinstance(value, list) else value
