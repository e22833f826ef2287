"""Streams end to end in an embedded cluster: produce, query, commit, pause, restart, kill, lost offsets."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from gamay.cli.app import app
from gamay.cluster.records.completion import Call, CompletionRequest, Status
from gamay.embedded import core
from gamay.ingest.stream.log.topic import TopicConfig
from gamay.roles.controller_role import ControllerRole
from gamay.server.consuming.commit import SegmentCommit
from gamay.server.consuming.completion_client import HttpCompletionClient

MakeRealtime = Callable[..., Any]
Eventually = Callable[..., None]
WORKER = Path(__file__).with_name("consuming_worker.py")


@pytest.mark.parametrize("pauseless", [False, True])
def test_every_answer_is_a_prefix_of_each_partition(
    make_realtime: MakeRealtime, eventually: Eventually, pauseless: bool
) -> None:
    realtime = make_realtime(partitions=2, segment_rows=700, pauselessConsumptionEnabled=pauseless)
    done = threading.Event()

    def produce() -> None:
        for number in range(60):
            realtime.produce(50 + number, number % 2)
            done.wait(0.01)
        done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    before: dict[int, int] = {}
    while not done.is_set():
        counts = realtime.counts()  # checks that they are prefixes
        assert all(counts.get(p, 0) >= rows for p, rows in before.items())
        before = counts
    producer.join()
    eventually(realtime.all_there)
    committed = sum(rows // 700 for rows in realtime.sent)
    eventually(lambda: sorted(realtime.segments().values()) == ["CONSUMING"] * 2 + ["ONLINE"] * committed)


@pytest.mark.parametrize("pauseless", [True, False])
def test_rows_are_seen_while_the_segment_before_them_is_committed(
    make_realtime: MakeRealtime, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, pauseless: bool
) -> None:
    """The broker knows only the segment that ended; that one's rows and those behind it are read once."""
    released = threading.Event()
    plain = SegmentCommit.upload

    def upload(commit: SegmentCommit) -> str | None:
        released.wait(PATIENCE_S)
        return plain(commit)

    monkeypatch.setattr(SegmentCommit, "upload", upload)
    realtime = make_realtime(segment_rows=300, pauselessConsumptionEnabled=pauseless)
    try:
        for _ in range(5):
            realtime.produce(100)
            eventually(realtime.all_there)
        # rows that follow are there before the controller names their segment
        states = ["ONLINE", "CONSUMING"] if pauseless else ["CONSUMING"]
        eventually(lambda: list(realtime.segments().values()) == states)
        assert realtime.ask("SELECT COUNT(*) FROM t")["numConsumingSegmentsQueried"] == 2
    finally:
        released.set()
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "CONSUMING"])
    realtime.produce(50)
    eventually(realtime.all_there)


def test_answers_tell_how_fresh_they_are(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime(partitions=2)
    realtime.produce(10, 0)
    realtime.produce(10, 1)
    eventually(realtime.all_there)
    answer = realtime.ask("SELECT COUNT(*) FROM t WHERE p = 1")
    assert (answer["numConsumingSegmentsQueried"], answer["numConsumingSegmentsMatched"]) == (2, 1)
    assert answer["minConsumingFreshnessTimeMs"] > 1_700_000_000_000
    info = realtime.rest("GET", "/tables/t/consumingSegmentsInfo")["_segmentToConsumingInfoMap"]
    assert {entry["partitionToOffsetMap"].popitem() for entries in info.values() for entry in entries} == {
        ("0", "10"), ("1", "10"),
    }  # fmt: skip
    status = realtime.rest("GET", "/tables/t/realtimeStatus")
    [replica] = status["consumingSegments"][0]["replicas"].values()
    assert (replica["currentOffset"], replica["recordsLag"], replica["numRows"]) == ("10", 0, 10)
    assert replica["memoryByColumn"]["n"]


def test_force_commit_pause_and_resume(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime()
    realtime.produce(10)
    eventually(realtime.all_there)
    realtime.rest("POST", "/tables/t/forceCommit")
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "CONSUMING"])
    realtime.produce(5)
    eventually(realtime.all_there)
    realtime.rest("POST", "/tables/t/pauseConsumption")
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "ONLINE"])
    realtime.produce(5)
    assert realtime.counts() == {0: 15}
    realtime.rest("POST", "/tables/t/resumeConsumption")
    eventually(realtime.all_there)


@pytest.mark.parametrize("pauseless", [False, True])
def test_a_restart_neither_loses_nor_doubles(make_realtime: MakeRealtime, eventually: Eventually, pauseless: bool) -> None:
    realtime = make_realtime(partitions=2, segment_rows=300, pauselessConsumptionEnabled=pauseless)
    for _ in range(3):
        realtime.produce(410, 0)
        realtime.produce(170, 1)
        eventually(realtime.all_there)
        realtime.stop()
        realtime.produce(90, 0)
        realtime.start()
        eventually(realtime.all_there)
    committed = sum(rows // 300 for rows in realtime.sent)
    eventually(lambda: list(realtime.segments().values()).count("ONLINE") == committed)
    assert realtime.all_there()


def test_a_kill_at_any_moment_neither_loses_nor_doubles(
    make_realtime: MakeRealtime, eventually: Eventually, tmp_path: Path
) -> None:
    realtime = make_realtime(partitions=2, segment_rows=2000)
    realtime.stop()
    rng = random.Random(int(os.environ.get("GAMAY_KILL_SEED", "11")))
    for _ in range(int(os.environ.get("GAMAY_KILL_ROUNDS", "2"))):
        worker = subprocess.Popen([sys.executable, str(WORKER), str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        for _ in range(rng.randrange(4, 20)):
            realtime.produce(rng.randrange(200, 900), rng.randrange(2))
            threading.Event().wait(0.02)
        threading.Event().wait(rng.random() * 0.2)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
    realtime.start()
    eventually(realtime.all_there)


def test_messages_that_are_no_rows_can_be_listed(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime()
    realtime.produce(3)
    realtime.producer.send(pa.array([b"\xff{", b'{"n": "many", "p": 0}'], pa.binary()), partition=0)
    realtime.produce(3)
    eventually(realtime.all_there)
    letters = realtime.rest("GET", "/tables/t/deadLetters")["deadLetters"]
    assert [(entry["offset"], entry["kind"]) for entry in letters] == [("3", "UNDECODABLE"), ("4", "UNCONVERTIBLE")]
    assert letters[0]["payload"] == "/3s="


def test_a_stream_of_json_in_several_forms(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime(segment_rows=40, **{"stream.log.decoder.prop.jsonFormat": "AUTO"})

    def jsonb(record: dict[str, Any]) -> bytes:
        """SQLite's: sizes and types before texts and numbers, whose digits are written out."""
        parts = [(10, name, 3 if isinstance(value, int) else 10, str(value)) for name, value in record.items()]
        flat = [(kind, text.encode()) for part in parts for kind, text in (part[:2], part[2:])]
        payload = b"".join(bytes([0xC0 | kind, len(text)]) + text for kind, text in flat)
        return bytes([0xCC, len(payload)]) + payload

    records = [{"s": f"v{n % 7}", "p": 0, "n": n, "ts": 1_700_000_000_000 + n} for n in range(100)]
    forms = (orjson.dumps, lambda record: b"\x01" + orjson.dumps(record), jsonb)
    messages = [forms[n % 3](record) for n, record in enumerate(records)]
    messages.insert(50, b":)\n\x00")
    realtime.producer.send(pa.array(messages, pa.binary()), partition=0)
    realtime.sent[0] = len(records)
    eventually(realtime.all_there)
    (letter,) = realtime.rest("GET", "/tables/t/deadLetters")["deadLetters"]
    assert (letter["offset"], letter["kind"]) == ("50", "UNDECODABLE")


def test_offsets_that_the_stream_has_lost_are_listed(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    topic = TopicConfig(1, segment_bytes=65_536, retention_bytes=65_536)
    realtime = make_realtime(topic=topic, segment_rows=1_000_000)
    realtime.produce(10)
    eventually(realtime.all_there)
    realtime.stop()
    for _ in range(40):
        realtime.produce(200)
    realtime.start()
    eventually(lambda: realtime.ask("SELECT MAX(n) FROM t")["resultTable"]["rows"][0][0] == realtime.sent[0] - 1)
    [gap] = realtime.rest("GET", "/tables/t/deadLetters")["deadLetters"]
    assert (gap["kind"], gap["offset"]) == ("GAP", "0")
    kept = realtime.ask("SELECT COUNT(*), MIN(n) FROM t")["resultTable"]["rows"][0]
    assert kept == [realtime.sent[0] - int(gap["nextOffset"]), int(gap["nextOffset"])]


def test_a_table_that_is_dropped_stops_consuming(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime()
    realtime.produce(10)
    eventually(realtime.all_there)
    realtime.rest("DELETE", "/tables/t")
    assert realtime.cluster is not None
    server = realtime.cluster.core.server
    eventually(lambda: not server.consumers.consumers("t_REALTIME"))
    eventually(lambda: not any(thread.name.startswith("consume-t__") for thread in threading.enumerate()))


def test_segments_are_committed_over_http(
    make_realtime: MakeRealtime, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over_http(controller: ControllerRole) -> HttpCompletionClient:
        return HttpCompletionClient(lambda: controller.context.url)

    monkeypatch.setattr(core, "LocalCompletion", over_http)
    realtime = make_realtime(segment_rows=200)
    realtime.produce(450)
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "ONLINE", "CONSUMING"])
    eventually(realtime.all_there)


def test_a_controller_that_does_not_answer_is_asked_again_later() -> None:
    client = HttpCompletionClient(lambda: "http://localhost:9")
    asked = CompletionRequest("Server_a_1", "t__0__0__20260101T0000Z", "5")
    assert client.ask(Call.CONSUMED, asked).status is Status.NOT_SENT
    assert HttpCompletionClient(lambda: None).ask(Call.CONSUMED, asked).status is Status.NOT_SENT
    client.close()


def test_the_command_line(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_realtime(segment_rows=10)
    status = ["admin", "realtime", "status", "t", "--controller", realtime.cluster.controller_url]
    assert "no completed segments\n" in CliRunner().invoke(app, status).output
    realtime.produce(15)
    realtime.producer.send(pa.array([b"{"], pa.binary()), partition=0)
    eventually(realtime.all_there)
    eventually(lambda: realtime.rest("GET", "/tables/t/deadLetters")["deadLetters"])

    def run(*arguments: str) -> str:
        ran = CliRunner().invoke(app, ["admin", "realtime", *arguments, "--controller", realtime.cluster.controller_url])
        assert ran.exit_code == 0, ran.output
        return ran.output

    shown = run("status", "t")
    assert "INITIAL_CONSUMING" in shown
    assert "1 completed segments, of 10 rows" in shown
    assert "dead letters: 1 UNDECODABLE" in shown
    assert '"recordsLag": 0' in run("status", "t", "--json")
    assert '"payload": "ew=="' in run("dead-letters", "t")
    run("force-commit", "t")
    eventually(lambda: list(realtime.segments().values()) == ["ONLINE", "ONLINE", "CONSUMING"])
    assert '"pauseFlag": true' in run("pause", "t")
    assert '"pauseFlag": false' in run("resume", "t")
