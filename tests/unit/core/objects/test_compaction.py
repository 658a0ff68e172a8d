import sys
from collections import OrderedDict, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from podwright.core.objects.compaction import RecentCache, compact_all, compact_regularly, shrink
from podwright.core.objects.interning import Interner
from support.costs.call_counts import calls_of
from support.state.allocations import bytes_left_by


class TestRecentCache:
    def test_a_value_is_kept_until_two_compactions_after_its_last_use(self):
        cache = RecentCache(4)
        cache.put("a", 1)
        cache.compact()
        assert cache.get("a") == 1
        cache.compact()
        assert cache.get("a") == 1
        cache.compact()
        cache.compact()
        assert cache.get("a") is None
        assert len(cache) == 0

    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=100))
    def test_the_keys_used_last_are_kept_and_at_most_twice_as_many(self, steps):
        cache = RecentCache(3)
        used = []
        for put, key in steps:
            if put:
                cache.put(key, str(key))
            elif cache.get(key) is None:
                continue
            used = [key, *(other for other in used if other != key)]
            assert len(cache) <= 6
        assert all(cache.get(key) == str(key) for key in used[:3])

    def test_weights_are_bounded(self):
        cache = RecentCache(100, max_weight=10)
        for key in range(50):
            cache.put(key, key, 4)
            assert cache.get(key) == key
            assert len(cache) <= 4
        cache.put("heavy", 1, 11)
        assert cache.get("heavy") is None
        cache.put("light", 1, 3)
        cache.put("light", 2, 4)
        assert cache.get("light") == 2

    def test_a_replaced_value_that_is_too_heavy_is_dropped(self):
        cache = RecentCache(100, max_weight=10)
        cache.put("a", 1, 1)
        cache.put("a", 2, 11)
        assert cache.get("a") is None

    def test_weights_still_count_after_a_key_was_found_in_the_old_generation(self):
        cache = RecentCache(100, max_weight=10)
        cache.put("a", 1, 6)
        cache.compact()
        assert cache.get("a") == 1
        cache.put("b", 2, 6)
        cache.put("c", 3, 6)
        assert [cache.get(key) for key in ("c", "b", "a")] == [3, 2, None]

    def test_nothing_is_left_after_it_was_cleared(self):
        cache = RecentCache(3, max_weight=10)
        for key in range(5):
            cache.put(key, key, 2)
        cache.clear()
        assert len(cache) == 0
        assert [cache.get(key) for key in range(5)] == [None] * 5
        for key in range(3):
            cache.put(key, key, 3)
        assert len(cache) == 3

    def test_a_key_of_the_young_generation_is_found_without_a_python_function(self):
        cache = RecentCache(4)
        cache.put("a", 1)
        assert cache.get("a") == 1
        assert calls_of(lambda: cache.get("a"), ("call",)) == calls_of(lambda: None, ("call",))

    def test_it_is_compacted_with_everything_else(self):
        cache = RecentCache(4)
        cache.put("a", 1)
        compact_all()
        compact_all()
        assert cache.get("a") is None


def test_a_container_that_was_larger_frees_its_memory_in_place():
    for container in (dict.fromkeys(range(10_000), 0), set(range(10_000))):
        large = sys.getsizeof(container)
        for number in range(5, 10_000):
            container.pop(number) if isinstance(container, dict) else container.remove(number)
        assert sys.getsizeof(container) == large
        shrink(container)
        assert sys.getsizeof(container) < large / 100
        assert sorted(container) == [0, 1, 2, 3, 4]


def test_a_container_that_needs_its_memory_is_left_alone():
    for count in (0, 1, 10, 1_000, 10_000):
        for container in (dict.fromkeys(range(count), 0), set(range(count))):
            size = sys.getsizeof(container)
            shrink(container)
            assert sys.getsizeof(container) == size


def test_the_containers_of_a_structure_free_their_memory_by_themselves():
    class Structure:
        def __init__(self):
            self.containers = [dict.fromkeys(range(10_000)), set(range(10_000)), OrderedDict.fromkeys(range(10_000))]
            self.a, self.b, self.c = self.containers
            self.d = defaultdict(int, self.a)
            self.containers.append(self.d)
            compact_regularly(self)

    structure = Structure()
    large = [sys.getsizeof(each) for each in structure.containers]
    for container in structure.containers:
        for number in range(5, 10_000):
            container.pop(number) if isinstance(container, dict) else container.remove(number)
    compact_all()
    for container, size in zip(structure.containers, large, strict=True):
        assert sys.getsizeof(container) < size / 20
        assert sorted(container) == [0, 1, 2, 3, 4]
    assert structure.d.default_factory is int


def test_a_structure_is_compacted_as_long_as_it_lives():
    class Structure:
        compactions = 0

        def compact(self):
            Structure.compactions += 1

    structure = Structure()
    compact_regularly(structure)
    compact_all()
    del structure
    compact_all()
    assert Structure.compactions == 1


class Parsed:
    """An object in an interner."""


def test_an_interner_keeps_no_memory_of_objects_that_are_gone():
    interner = Interner()
    kept = interner.get("kept", Parsed)

    def come_and_go():
        objects = [interner.get(f"value-{number}", Parsed) for number in range(5_000)]
        del objects
        compact_all()

    come_and_go()
    assert bytes_left_by(come_and_go) < 5_000
    assert interner.get("kept", Parsed) is kept
