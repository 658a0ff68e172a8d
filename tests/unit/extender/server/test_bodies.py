"""The room for large bodies."""

import asyncio

from podwright.extender.server.bodies import Budget


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
    async with asyncio.timeout(10):
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
