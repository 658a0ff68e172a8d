"""The elector: who gets the Lease, for how long, and what a leader may do. The Lease is in memory, the time is ours."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest

from podwright.kube.client.errors import ApiError, UnreachableError
from podwright.kube.election.elector import ElectionTimes, Elector, NotLeadingError
from podwright.kube.election.lease import LeaseRecord
from support.waiting import patience

TIMES = ElectionTimes(lease_duration=15, renew_deadline=10, retry_period=0.01)
"""A leader renews every 10 ms of real time; expiry and deadline are on the test's clock."""


def nothing():
    pass


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class LeaseInMemory:
    """A Lease with the API server's optimistic concurrency. `down`: every request fails."""

    def __init__(self):
        self.record = None
        self.version = 10
        self.down = self.hidden = False
        self.writes = []
        self.read_versions = []
        self.changed = asyncio.Event()

    def __str__(self):
        return "ns/name"

    def set(self, spec):
        self.version += 1
        raw = {"metadata": {"resourceVersion": str(self.version)}, "spec": spec}
        self.record = None if spec is None else LeaseRecord.of(raw)
        self.changed.set()
        self.changed = asyncio.Event()
        return self.record

    async def read(self):
        if self.down:
            raise UnreachableError("down")
        self.read_versions.append(self.version)
        return self.record

    async def write(self, spec, earlier):
        if self.down:
            raise UnreachableError("down")
        if self.record is None and earlier is not None:
            raise ApiError(404, "NotFound", "no such Lease")
        if self.record is not None and (earlier is None or earlier.version != self.record.version):
            raise ApiError(409, "Conflict", "someone was faster")
        self.writes.append(spec)
        return self.set({**({} if earlier is None else earlier.raw["spec"]), **spec})

    async def changes(self, since, seconds):
        if self.down or self.hidden:
            raise ApiError(403, "Forbidden", "leases may not be watched")
        seen = 0 if since is None else since.version
        while True:
            if self.version > seen:
                seen = self.version
                yield self.record
            else:
                await self.changed.wait()


@pytest.fixture
def lease():
    return LeaseInMemory()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def elect(lease, clock):
    """Starts electors by name."""
    tasks = []

    def start(name, times=TIMES, **options):
        hooks = {"late": nothing, "slow_path": nothing, **options}
        elector = Elector(lease, times, identity=name, clock=clock, **hooks)
        tasks.append(asyncio.create_task(elector.run()))
        return elector

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def soon(condition):
    async with patience():
        while not condition():
            await asyncio.sleep(0.001)


RELEASED = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4}


def held_by_another(seconds=15):
    return {"holderIdentity": "another", "leaseDurationSeconds": seconds, "leaseTransitions": 4}


async def test_an_absent_lease_is_created(elect, lease):
    elector = elect("a")
    await elector.leading.wait()
    elector.check()
    assert (lease.record.holder, lease.record.seconds, lease.record.transitions) == ("a", 15, 0)


async def test_a_released_lease_is_taken(elect, lease):
    lease.set({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4})
    elector = elect("a")
    await elector.leading.wait()
    assert lease.record.transitions == 5


async def test_a_lease_that_another_holds_is_left_alone_until_it_expires(elect, lease, clock):
    lease.hidden = True  # it polls, and so looks at our clock often
    lease.set(held_by_another())
    elector = elect("a")
    await soon(lambda: elector.holder == "another")
    clock.now += 14.9
    await asyncio.sleep(0.05)
    assert not elector.leading.is_set()
    with pytest.raises(NotLeadingError, match="another's"):
        elector.check()
    version = lease.set(held_by_another()).version  # renewed
    await soon(lambda: lease.read_versions[-1] == version)
    clock.now += 14.9
    await asyncio.sleep(0.05)
    assert not elector.leading.is_set()
    clock.now += 0.2
    await elector.leading.wait()


async def test_a_standby_takes_a_released_lease_with_one_request(elect, lease):
    lease.set(held_by_another(3600))
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await soon(lambda: elector.holder == "another")
    reads = len(lease.read_versions)
    lease.set(RELEASED)
    await soon(elector.leading.is_set)
    assert len(lease.read_versions) == reads


@pytest.mark.parametrize("spec", [None, {**RELEASED, "leaseTransitions": 7}], ids=["deleted", "edited"])
async def test_a_standby_reads_a_lease_that_someone_writes_right_after_its_release(elect, lease, monkeypatch, spec):
    lease.set(held_by_another(3600))
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await soon(lambda: elector.holder == "another")
    write = lease.write

    async def is_preceded(own, earlier):
        monkeypatch.setattr(lease, "write", write)
        lease.set(spec)
        return await write(own, earlier)

    monkeypatch.setattr(lease, "write", is_preceded)
    lease.set(RELEASED)
    await soon(elector.leading.is_set)
    assert lease.record.holder == "a"
    assert lease.record.transitions == (0 if spec is None else 8)


async def test_a_standby_leaves_a_lease_alone_that_another_one_takes_first(elect, lease, monkeypatch):
    lease.set(held_by_another(3600))
    elector = elect("a")
    await soon(lambda: elector.holder == "another")
    write = lease.write

    async def is_preceded(own, earlier):
        monkeypatch.setattr(lease, "write", write)
        lease.set({**held_by_another(), "holderIdentity": "faster"})
        return await write(own, earlier)

    monkeypatch.setattr(lease, "write", is_preceded)
    lease.set(RELEASED)
    await soon(lambda: elector.holder == "faster")
    assert not elector.leading.is_set()
    assert lease.record.holder == "faster"


@pytest.mark.parametrize("spec", [None, {**RELEASED, "leaseDurationSeconds": 15}], ids=["deleted", "edited"])
async def test_a_lease_that_someone_frees_by_hand_is_not_taken_before_its_holder_has_stopped(elect, lease, clock, spec):
    lease.hidden = True  # it polls, and so looks at our clock often
    lease.set(held_by_another())
    elector = elect("a")
    await soon(lambda: elector.holder == "another")
    lease.set(spec)
    await soon(lambda: lease.read_versions[-1] == lease.version)
    clock.now += 14.9
    await asyncio.sleep(0.05)
    assert not elector.leading.is_set()
    clock.now += 0.2
    await soon(elector.leading.is_set)


async def test_a_leader_whose_lease_is_deleted_stays_the_only_one(elect, lease):
    first = elect("a")
    await first.leading.wait()
    second = elect("b")
    await soon(lambda: second.holder == "a")
    for _ in range(5):
        lease.set(None)
        await soon(lambda: lease.record is not None)
        await asyncio.sleep(0.02)
        assert (first.may_write, second.may_write) == (True, False)
    assert not first.lost.is_set()


async def test_a_lost_answer_to_the_request_that_takes_the_lease_costs_no_lease_duration(elect, lease):
    write = lease.write

    async def loses_the_answer(spec, earlier):
        await write(spec, earlier)
        lease.write = write
        raise UnreachableError("the connection was lost")

    lease.write = loses_the_answer
    elector = elect("a")
    await soon(elector.leading.is_set)
    assert lease.record.holder == "a"


async def test_a_standby_that_may_not_watch_polls(elect, lease):
    lease.hidden = True
    lease.set(held_by_another(3600))
    elector = elect("a")
    await soon(lambda: elector.holder == "another")
    lease.set(RELEASED)
    await soon(elector.leading.is_set)


async def test_one_of_many_gets_the_lease(elect, lease):
    electors = [elect(f"e{i}") for i in range(10)]
    await soon(lambda: any(elector.leading.is_set() for elector in electors))
    await soon(lambda: all(elector.holder == lease.record.holder for elector in electors))
    assert sum(elector.may_write for elector in electors) == 1
    assert sum(elector.leading.is_set() for elector in electors) == 1


async def test_a_leader_renews(elect, lease, clock):
    elector = elect("a")
    await elector.leading.wait()
    for _ in range(5):
        count = len(lease.writes)
        clock.now += 9
        elector.check()
        await soon(lambda count=count: len(lease.writes) >= count + 2)
    assert "acquireTime" not in lease.writes[-1]


async def test_a_leader_may_write_until_its_deadline_only_and_ends_then(elect, lease, clock):
    resets = []
    elector = elect("a", late=lambda: resets.append(1))
    await elector.leading.wait()
    lease.down = True
    await soon(lambda: resets)
    clock.now += 9.9
    elector.check()
    clock.now += 0.2
    with pytest.raises(NotLeadingError):
        elector.check()
    await elector.lost.wait()


async def test_a_deadline_runs_from_the_beginning_of_the_renewal(elect, lease, clock):
    elector = elect("a")
    await elector.leading.wait()
    write = lease.write

    async def slow(spec, earlier):
        record = await write(spec, earlier)
        clock.now += 4
        lease.down = True
        return record

    lease.write = slow
    await soon(lambda: lease.down)
    clock.now += 5.9
    elector.check()
    clock.now += 0.2
    with pytest.raises(NotLeadingError):
        elector.check()


async def test_a_process_that_slept_may_write_nothing(elect, clock, lease):
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await elector.leading.wait()
    clock.now += 60  # as after SIGSTOP and SIGCONT
    with pytest.raises(NotLeadingError):
        elector.check()


async def test_a_lease_that_another_holder_took_is_lost_at_once(elect, lease, caplog):
    caplog.set_level(logging.INFO)
    elector = elect("a")
    await elector.leading.wait()
    lease.set(held_by_another())
    await elector.lost.wait()
    assert not elector.may_write
    assert "leader election lost: lease ns/name: another holds it" in caplog.text


async def test_a_lease_that_someone_deleted_or_edited_is_written_again(elect, lease, caplog):
    slow = []
    elector = elect("a", slow_path=lambda: slow.append(1))
    await elector.leading.wait()
    await soon(lambda: len(lease.writes) > 2)
    assert slow == [], "renewals do not read the Lease"
    lease.set(None)
    await soon(lambda: lease.record is not None and lease.record.holder == "a")
    assert "someone has deleted lease ns/name, which is ours; writing it again" in caplog.text
    lease.set({**lease.record.raw["spec"], "leaseDurationSeconds": 99})
    await soon(lambda: lease.record.seconds == 15)
    assert "someone has changed lease ns/name, which is ours; writing it again" in caplog.text
    elector.check()
    assert not elector.lost.is_set()
    assert len(slow) == 2


async def test_a_released_lease_is_free_at_once(elect, lease):
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await elector.leading.wait()
    await elector.release()
    assert (lease.record.holder, lease.record.seconds) == ("", 1)
    assert len(lease.read_versions) == 1
    with pytest.raises(NotLeadingError):
        elector.check()
    second = elect("b")
    await second.leading.wait()


async def test_a_standby_releases_nothing(elect, lease):
    lease.set(held_by_another())
    elector = elect("a")
    await soon(lambda: elector.holder == "another")
    await elector.release()
    assert lease.record.holder == "another"


async def test_a_standby_goes_on_while_the_api_server_is_gone(elect, lease, caplog):
    lease.down = True
    elector = elect("a")
    await soon(lambda: "cannot reach lease ns/name: down" in caplog.text)
    assert not elector.leading.is_set()
    lease.down = False
    await soon(elector.leading.is_set)


async def test_a_renewal_that_hangs_ends_at_the_deadline_and_so_do_other_requests(lease, clock):
    resets, times = [], ElectionTimes(lease_duration=2, renew_deadline=0.2, retry_period=0.05)
    loop = asyncio.get_running_loop()

    def late():
        resets.append(elector.may_write)

    elector = Elector(lease, times, identity="a", clock=loop.time, late=late, slow_path=nothing)
    running = asyncio.create_task(elector.run())
    await elector.leading.wait()

    async def hangs(spec, earlier):
        await asyncio.Event().wait()

    lease.write = hangs
    await elector.lost.wait()
    assert resets[-1] is False, "the last reset comes at the deadline"
    running.cancel()


async def test_a_fraction_of_a_second_makes_the_lease_longer_than_the_deadline(elect, lease):
    elector = elect("a", dataclasses.replace(TIMES, lease_duration=1.9, renew_deadline=1.8))
    await elector.leading.wait()
    assert lease.record.seconds == 2


async def test_a_leader_releases_the_lease_although_its_last_renewal_was_cancelled(elect, lease):
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await elector.leading.wait()
    lease.set({**lease.record.raw["spec"], "renewTime": "later"})  # carried out, but the answer never came
    await elector.release()
    assert lease.record.holder == ""


async def test_a_lease_is_released_although_a_cancelled_renewal_is_carried_out_meanwhile(elect, lease):
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await elector.leading.wait()
    lease.set({**lease.record.raw["spec"], "renewTime": "earlier"})
    read, reads = lease.read, []

    async def is_renewed_afterwards():
        reads.append(await read())
        if len(reads) == 1:
            lease.set({**lease.record.raw["spec"], "renewTime": "later"})
        return reads[-1]

    lease.read = is_renewed_afterwards
    await elector.release()
    assert (lease.record.holder, len(reads)) == ("", 2)


async def test_a_lease_that_was_taken_or_deleted_is_not_released(elect, lease):
    for spec in (held_by_another(), None):
        lease.set(RELEASED)
        elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
        await elector.leading.wait()
        found = lease.set(spec)
        await elector.release()
        assert lease.record is found


async def test_only_an_instance_that_does_not_lead_at_once_stands_by(elect, lease):
    first = elect("a")
    await first.leading.wait()
    second = elect("b")
    await second.standing_by.wait()
    assert not first.standing_by.is_set()


async def test_a_watch_that_ends_at_once_is_followed_by_a_pause(elect, lease, monkeypatch):
    async def ends(since, seconds):
        return
        yield

    monkeypatch.setattr(lease, "changes", ends)
    lease.set(held_by_another(3600))
    elector = elect("a", dataclasses.replace(TIMES, retry_period=3600))
    await soon(lambda: elector.holder == "another")
    await asyncio.sleep(0.05)
    assert len(lease.read_versions) == 1
