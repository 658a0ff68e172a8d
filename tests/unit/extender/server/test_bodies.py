"""The room for large bodies, and their bounds."""

import asyncio

from podwright.extender.server.bodies import SMALL, Budget
from support.extender.kit import ExtenderRig
from support.waiting import patience


async def test_room_is_given_in_the_order_of_arrival():
    budget, order = Budget(10), []

    async def use(name, size):
        await budget.take(size)
        order.append(name)
        await asyncio.sleep(0)
        assert budget.used <= 10
        budget.give_back(size)

    await asyncio.gather(use("a", 6), use("b", 10), use("c", 1), use("d", 5))
    assert order == ["a", "b", "c", "d"]
    assert budget.used == 0


async def test_a_request_that_gives_up_waiting_takes_no_room():
    budget = Budget(10)
    await budget.take(10)
    waiting = [asyncio.create_task(budget.take(10)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    budget.give_back(10)
    waiting[1].cancel()  # its turn has come, but it has not run yet
    await asyncio.gather(*waiting[:2], return_exceptions=True)
    async with patience():
        await waiting[2]
    assert budget.used == 10


async def test_what_is_in_memory_already_counts():
    budget = Budget(10)
    budget.add(8)
    waiting = asyncio.create_task(budget.take(5))
    await asyncio.sleep(0)
    assert (budget.used, waiting.done()) == (8, False)
    budget.give_back(8)
    await waiting
    assert budget.used == 5


async def test_no_option_is_blamed_for_a_bound_that_it_does_not_set():
    rig = ExtenderRig("a", body_bytes=2 * SMALL)
    async with rig.serving() as caller:
        too_long = b" " * (2 * SMALL + 1)
        assert await caller.post("/bind", too_long) == (413, f"the body is longer than {64 << 10} bytes\n")
        for path in ("/preempt", "/filter"):
            expected = f"the body is longer than {2 * SMALL} bytes (--max-body-bytes)\n"
            assert await caller.post(path, too_long) == (413, expected)
