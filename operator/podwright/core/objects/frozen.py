"""FrozenDict: a dict that cannot be changed, for parts of objects that plugins see. Reading it costs what reading a
dict costs.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_READ_ONLY: Final = "is read-only: the objects of the cluster change only by watch events"


class FrozenDict(dict[K, V]):
    """See the module. Raises TypeError for each change."""

    __slots__ = ()

    def _refuse(self, *_args: Any, **_more: Any) -> NoReturn:
        raise TypeError(f"this {type(self).__name__} {_READ_ONLY}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, _memo: Any) -> FrozenDict[K, V]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
