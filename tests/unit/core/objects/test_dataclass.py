"""Data classes of the package behave as the standard library's, with methods that are compiled when first called."""

import copy
import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    zone: str
    rank: int = 0
    tags: tuple[str, ...] = dataclasses.field(default_factory=tuple, compare=False)
    key: str = dataclasses.field(init=False, default="none", repr=False)
    kinds: ClassVar[int] = 2

    def __post_init__(self):
        if self.rank < 0:
            raise ValueError("negative")


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class PlaceOfTheLibrary:
    zone: str
    rank: int = 0
    tags: tuple[str, ...] = dataclasses.field(default_factory=tuple, compare=False)
    key: str = dataclasses.field(init=False, default="none", repr=False)
    kinds: ClassVar[int] = 2


@dataclass(slots=True, kw_only=True)
class Mutable:
    count: int = 0


@dataclass(frozen=True, eq=False)
class Identical:
    count: int

    def __repr__(self):
        return "own"


@dataclass(frozen=True, slots=True)
class Deeper(Place):
    depth: int = 1


def test_objects_are_initialized_with_defaults_and_checked():
    made = Place("a", tags=("x",))
    assert (made.zone, made.rank, made.tags, made.key, Place("b").tags) == ("a", 0, ("x",), "none", ())
    with pytest.raises(ValueError, match="negative"):
        Place("a", -1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'zone'"):
        Place()
    with pytest.raises(TypeError):
        Mutable(1)


def test_objects_compare_hash_and_print_as_the_standard_librarys():
    for one, other in [(("a", 1), ("a", 1)), (("a", 1), ("a", 2)), (("b", 1), ("a", 2))]:
        ours, theirs = (Place(*one), Place(*other)), (PlaceOfTheLibrary(*one), PlaceOfTheLibrary(*other))
        for compare in ("__eq__", "__lt__", "__le__", "__gt__", "__ge__"):
            assert getattr(ours[0], compare)(ours[1]) == getattr(theirs[0], compare)(theirs[1])
        assert hash(ours[0]) == hash(theirs[0])
        assert repr(ours[0]) == repr(theirs[0]).replace("PlaceOfTheLibrary", "Place")
    assert Place("a") != PlaceOfTheLibrary("a")
    assert Place.__match_args__ == PlaceOfTheLibrary.__match_args__


def test_what_a_class_defines_itself_stays():
    assert repr(Identical(1)) == "own"
    assert Identical(1) != Identical(1)
    assert Mutable() == Mutable(count=0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Mutable())


def test_a_frozen_object_cannot_be_changed():
    made = Place("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'zone'"):
        made.zone = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'zone'"):
        del made.zone
    mutable = Mutable()
    mutable.count = 3
    assert mutable.count == 3


def test_objects_are_replaced_copied_and_pickled():
    made = Place("a", 2, ("x",))
    assert dataclasses.replace(made, rank=3) == Place("a", 3)
    assert dataclasses.asdict(made) == {"zone": "a", "rank": 2, "tags": ("x",), "key": "none"}
    for copied in (copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert copied == made
        assert copied.tags == ("x",)


@dataclass(frozen=True)
class Counted:
    self: str

    def __post_init__(self):
        object.__setattr__(self, "length", len(self.self))


@dataclass(frozen=True, slots=True)
class OwnState:
    zone: str

    def __getstate__(self):
        return ["own"]


def test_copies_have_what_the_standard_librarys_have():
    made = Counted(self="web")
    assert copy.copy(made).length == pickle.loads(pickle.dumps(made)).length == 3
    assert copy.copy(OwnState("a")).zone == "own"


def test_a_method_that_was_wrapped_before_its_first_call_stays_wrapped():
    @dataclass(slots=True)
    class Wrapped:
        count: int

    made, original = [], Wrapped.__init__

    def wrapper(self, count):
        made.append(count)
        original(self, count)

    Wrapped.__init__ = wrapper
    assert [Wrapped(1).count, Wrapped(2).count] == made == [1, 2]


def test_threads_may_make_the_first_call_at_the_same_time():
    @dataclass(frozen=True, slots=True, order=True)
    class Shared:
        count: int
        names: tuple[str, ...] = dataclasses.field(default_factory=tuple)

    with ThreadPoolExecutor(8) as threads:
        barrier = threading.Barrier(8)

        def work(number):
            barrier.wait()
            return hash(Shared(number)), Shared(number) < Shared(9), repr(Shared(number)), Shared(1) == Shared(number)

        found = list(threads.map(work, range(8)))
    assert found == [(hash((each, ())), True, repr(Shared(each)), each == 1) for each in range(8)]


def test_a_compiled_method_is_the_standard_librarys():
    assert Place("a") == Place("a")
    assert hash(Place("a")) == hash(PlaceOfTheLibrary("a"))
    for name in ("__eq__", "__hash__"):
        assert vars(Place)[name].__code__.co_code == vars(PlaceOfTheLibrary)[name].__code__.co_code
        assert vars(Place)[name].__qualname__ == f"Place.{name}"


def test_classes_may_derive_from_one():
    made = Deeper("a", depth=2)
    assert (made.zone, made.depth) == ("a", 2)
    assert made == Deeper("a", 0, (), 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'depth'"):
        made.depth = 3
    assert copy.copy(made) == made != Place("a")
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Changing", (Place,), {"__annotations__": {"more": "int"}}))


def test_a_method_is_compiled_when_it_is_first_called():
    @dataclass(frozen=True, slots=True)
    class Late:
        count: int

    late = {name: getattr(Late, name) for name in ("__init__", "__repr__", "__eq__", "__hash__")}
    Late(1)
    assert {name for name, method in late.items() if getattr(Late, name) is not method} == {"__init__"}
    hash(Late(1))
    assert {name for name, method in late.items() if getattr(Late, name) is not method} == {"__init__", "__hash__"}
