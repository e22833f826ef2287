"""Replay of dead letters if servers do not answer, have different letters, or have not committed them."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from gamay.base.errors import DiskFullError, NotFoundError
from gamay.controller.realtime import streams
from gamay.ingest.stream.log.plugin import LogProducer
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.stream_level import TopicStream
from gamay.server.consuming.dead_letters import DeadLetter, DeadLetterKind, DeadLetters

TABLE = "t_REALTIME"
A, B = "Server_a_1", "Server_b_1"
PATH = "/tables/t/deadLetters/replay"


class Files:
    """The dead letters of servers a and b, as the controller asks for them; `silent` ones do not answer."""

    def __init__(self, servers: Any, folder: Path) -> None:
        self.files = {name: DeadLetters(TABLE, folder / name) for name in (A, B)}
        self.silent: set[str] = set()
        servers.dead_letters = lambda server, _, limit: self.of(server).entries(limit)
        servers.replayable = lambda server, _, limit: self.of(server).replayable(limit)
        servers.find_dead_letters = lambda server, _, places: self.of(server).find(places)
        servers.note_replayed = lambda server, _, replayed: self.of(server).note_replayed(replayed)

    def of(self, server: str) -> DeadLetters:
        if server in self.silent:
            raise NotFoundError(server)
        return self.files[server]

    def add(self, offset: int, *servers: str, payload: bytes | None = b"{", partition: int = 0) -> None:
        kind = DeadLetterKind.UNDECODABLE
        letter = DeadLetter(f"t__{partition}__0__x", partition, str(offset), kind, "no JSON", 5, payload)
        for server in servers or (A, B):
            self.files[server].add([letter])

    def marks(self, server: str) -> dict[str, str | None]:
        return {entry["offset"]: entry["replayedTo"] for entry in self.files[server].entries(100)}


@pytest.fixture
def files(table: Any, tmp_path: Path) -> Files:
    return Files(table.servers, tmp_path / "letters")


def replay(table: Any, *offsets: int, partition: int = 0, **params: str) -> dict[str, Any]:
    body = [{"partition": partition, "offset": str(offset)} for offset in offsets]
    answer = table.http.post(PATH, params=params, json=body) if body else table.http.post(PATH, params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def sent(answer: dict[str, Any]) -> dict[str, str]:
    return {entry["offset"]: entry["replayedTo"] for entry in answer["replayed"]}


def reasons(answer: dict[str, Any]) -> dict[str, str]:
    return {entry["offset"]: entry["reason"] for entry in answer["notReplayed"]}


def test_a_server_that_missed_a_mark_is_told_when_the_message_is_asked_for_again(table: Any, files: Files) -> None:
    table.commit(table.consuming(), 30, 30)
    files.add(4)
    files.add(5)
    files.silent = {B}
    first = replay(table, 4)
    assert (sent(first), first["serversFailingToRespond"]) == ({"4": "0"}, [B])
    files.silent = set()
    assert files.marks(B) == {"4": None, "5": None}
    shown = table.http.get("/tables/t/deadLetters").json()["deadLetters"]
    assert {entry["offset"]: entry["replayedTo"] for entry in shown} == {"4": "0", "5": None}
    every = replay(table, all="true")  # b still takes it for one that was not replayed
    assert (sent(every), every["serversFailingToRespond"]) == ({"5": "1"}, [])
    assert "replayed already, to offset 0" in reasons(every)["4"]
    assert files.marks(A) == files.marks(B) == {"4": "0", "5": "1"}
    assert sent(replay(table, 4, again="true")) == {"4": "2"}
    assert files.marks(A) == files.marks(B) == {"4": "2", "5": "1"}


def test_the_replica_that_kept_the_message_gives_it(table: Any, files: Files) -> None:
    table.commit(table.consuming(), 30, 30)
    files.add(4, A, payload=None)
    files.add(4, B)
    files.add(5, A, payload=None)
    answer = replay(table, 4, 5, 6, 5)
    assert sent(answer) == {"4": "0"}
    assert "was not kept" in reasons(answer)["5"]
    assert "no server that answers" in reasons(answer)["6"]
    files.silent = {A, B}
    silent = replay(table, 4)
    assert (silent["serversFailingToRespond"], list(reasons(silent))) == ([A, B], ["4"])


@pytest.mark.parametrize("pauseless", [False, True])
def test_what_is_not_committed_is_not_replayed(realtime: Any, tmp_path: Path, pauseless: bool) -> None:
    table = realtime
    table.topic(2)
    table.create(replication=2, pauseless=pauseless)
    files = Files(table.servers, tmp_path / "letters")
    for offset in (0, 29, 30, 31):
        files.add(offset)
        files.add(offset, partition=1)
    first = table.consuming()
    assert sent(replay(table, all="true")) == {}
    if pauseless:  # the next segment is consumed, and this one yet to be built: whoever does that may read it anew
        assert table.ask("segmentConsumed", first, 30, reason="rowLimit")["status"] == "COMMIT"
        assert table.ask("segmentCommitStart", first, 30)["status"] == "COMMIT_CONTINUE"
        assert table.consuming() != first
        assert f"{first} is not committed" in reasons(replay(table, 29))["29"]
        archive = table.archive(first, 30)
        location = table.send("segmentUpload", first, 30, archive)["segmentLocation"]
        metadata = archive.with_suffix("").with_suffix("") / "metadata.json"
        ended = table.send("segmentCommitEndWithMetadata", first, 30, metadata, location=location, rowCount=30)
        assert ended["status"] == "COMMIT_SUCCESS"
    else:
        table.commit(first, 30, 30)
    answer = replay(table, 0, 29, 30, 31)
    assert list(sent(answer)) == ["0", "29"]
    assert all(f"{table.consuming()} is not committed" in reason for reason in reasons(answer).values())
    assert list(reasons(answer)) == ["30", "31"]
    assert sent(replay(table, 0, partition=1)) == {}


def test_what_the_stream_does_not_take_stays_unmarked(table: Any, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(table.consuming(), 30, 30)
    files.add(4)
    files.add(5)
    send = LogProducer.send

    def partly(self: LogProducer, partition: int, payloads: Any, keys: Any, headers: Any) -> Any:
        (offset,) = send(self, partition, payloads.slice(0, 1), None, None)
        return [offset, DiskFullError("no room for it")]

    def full(*_: Any) -> Any:
        raise DiskFullError("no room at all")

    with monkeypatch.context() as patched:
        patched.setattr(LogProducer, "send", full)
        assert reasons(replay(table, 4, 5)) == {"4": "no room at all", "5": "no room at all"}
        patched.setattr(LogProducer, "send", partly)
        answer = replay(table, 4, 5)
    assert (sent(answer), reasons(answer)) == ({"4": "0"}, {"5": "no room for it"})
    assert files.marks(A) == {"4": "0", "5": None}
    with monkeypatch.context() as patched:
        patched.setattr(streams, "open_stream", lambda topic, context: TopicStream(open_stream(topic, context), "g"))
        refused = table.http.post(PATH, json=[{"partition": 0, "offset": "5"}])
        assert (refused.status_code, "'log' are read-only" in refused.json()["error"]) == (400, True)
    assert sent(replay(table, 5)) == {"5": "1"}


def test_one_call_at_a_time(table: Any, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(table.consuming(), 30, 30)
    files.add(4)
    entered, go = threading.Event(), threading.Event()
    send = LogProducer.send

    def slow(self: LogProducer, *given: Any) -> Any:
        entered.set()
        assert go.wait(PATIENCE_S)
        return send(self, *given)

    monkeypatch.setattr(LogProducer, "send", slow)
    answers: list[dict[str, Any]] = []
    first = threading.Thread(target=lambda: answers.append(replay(table, 4)))
    first.start()
    assert entered.wait(PATIENCE_S)
    assert table.http.post(PATH, json=[{"partition": 0, "offset": "4"}]).status_code == 409
    go.set()
    first.join()
    assert sent(answers[0]) == {"4": "0"}
    assert "replayed already" in reasons(replay(table, 4))["4"]
