"""The lead controller: one at a time, and a former one can no longer write. On both stores."""

import random
from collections.abc import Callable

import pytest
from tests.waiting import eventually

from gamay.cluster.store import paths
from gamay.cluster.store.election import LeadElection, leader_of
from gamay.cluster.store.store import FencedError, MetadataStore, update


class Candidate:
    """A controller that notes when it leads."""

    def __init__(self, store: MetadataStore, name: str) -> None:
        self.store = store
        self.terms: list[str] = []
        self.election = LeadElection(store, name, lambda: self.terms.append("lead"), lambda: self.terms.append("resign"))

    def start(self) -> "Candidate":
        self.election.start()
        return self

    def die(self) -> None:
        """End without a word, as a process does that is killed."""
        with self.election._condition:
            self.election._stopping = True
            self.election._condition.notify_all()
        assert self.election._thread is not None
        self.election._thread.join()


def test_one_leads_and_the_next_takes_over(open_store: Callable[[], MetadataStore]) -> None:
    store = open_store()
    assert leader_of(store) is None
    first = Candidate(store.new_session(), "Controller_a_9000").start()
    eventually(lambda: first.election.is_lead)
    second = Candidate(store.new_session(), "Controller_b_9000").start()
    assert leader_of(store) == "Controller_a_9000"
    assert not second.election.is_lead
    first.election.store.create("/x", b"a")
    with pytest.raises(FencedError, match="Controller_b_9000 does not lead"):
        second.election.store.create("/y", b"b")
    first.election.stop()
    assert first.terms == ["lead", "resign"]
    eventually(lambda: second.terms == ["lead"])
    second.election.store.set("/x", b"b", None)
    with pytest.raises(FencedError):
        first.election.store.set("/x", b"a", None)
    second.election.stop()
    first.store.close()
    second.store.close()


def test_a_leader_that_does_not_know_that_it_leads_no_more_cannot_write(open_store: Callable[[], MetadataStore]) -> None:
    store = open_store()
    old = Candidate(store.new_session(), "Controller_a_9000").start()
    eventually(lambda: old.election.is_lead)
    written = old.election.store.create("/state", b"old")
    fenced = old.election._fenced()  # what a thread of the old leader holds in its hands, about to write
    # as if the session had expired while the process was paused: it has not been notified yet
    old.election._cancels[0]()
    store.delete(paths.LEADER)
    new = Candidate(store.new_session(), "Controller_b_9000").start()
    eventually(lambda: new.election.is_lead)
    assert old.election.is_lead
    for write in (
        lambda: fenced.set(written, b"late", None),
        lambda: update(old.election.store, written, lambda _: b"late"),
    ):
        with pytest.raises(FencedError):
            write()
    node = new.store.get(written)
    assert node is not None
    assert node.value == b"old"
    old.election._look()
    eventually(lambda: old.terms == ["lead", "resign"])
    for candidate in (old, new):
        candidate.election.stop()
        candidate.store.close()


def test_there_is_always_one_leader_in_the_end(open_store: Callable[[], MetadataStore]) -> None:
    """Candidates join and leave in any order; each term has a distinct epoch, and writes are ordered by epoch."""
    store, draw = open_store(), random.Random(11)
    store.create("/log", b"")
    running: list[Candidate] = []

    def write_all() -> None:
        for candidate in running:
            try:
                name = candidate.election._instance_id.encode()
                update(candidate.election.store, "/log", lambda value, name=name: (value or b"") + name + b";")
            except FencedError:
                continue

    for number in range(12):
        running.append(Candidate(store.new_session(), f"Controller_{number}_9000").start())
        write_all()
        if len(running) > 1 and draw.random() < 0.7:
            gone = running.pop(draw.randrange(len(running)))
            if draw.random() < 0.5:
                gone.election.stop()
            gone.store.close()
        write_all()
    eventually(lambda: any(candidate.election.is_lead for candidate in running))
    eventually(lambda: sum(candidate.election.is_lead for candidate in running) == 1)
    leader = next(candidate for candidate in running if candidate.election.is_lead)
    assert leader_of(store) == leader.election._instance_id
    node = store.get("/log")
    assert node is not None
    writers = node.value.decode().split(";")[:-1]
    terms = [name for i, name in enumerate(writers) if i == 0 or writers[i - 1] != name]
    assert len(terms) == len(set(terms)), "a leader wrote again after another had written"
    for candidate in running:
        candidate.election.stop()
        candidate.store.close()


def test_a_leader_that_cannot_lead_tries_again(open_store: Callable[[], MetadataStore]) -> None:
    """A failure at the start of a term ends the term: no leader may hold it without doing its work."""
    store, calls = open_store(), []

    def lead() -> None:
        calls.append("lead")
        if len(calls) == 1:
            raise OSError("the disk is full")

    election = LeadElection(store.new_session(), "Controller_a_9000", lead, lambda: calls.append("resign"))
    election.start()
    eventually(lambda: calls[-1:] == ["lead"] and election.is_lead and len(calls) == 3)
    assert calls == ["lead", "resign", "lead"]
    epoch = store.get(paths.EPOCH)
    assert epoch is not None
    assert epoch.version == 2
    election.stop()
