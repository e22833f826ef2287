"""Dead letters are written to the stream again once the table accepts them."""

import base64
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from tests.kafka_harness import KafkaHarness
from tests.realtime.conftest import Realtime
from typer.testing import CliRunner

from gamay.base.errors import NotFoundError
from gamay.cli.app import app
from gamay.controller.instances.remote_servers import HttpServers
from gamay.ingest.stream.log.topic import TopicConfig

MakeRealtime = Callable[..., Realtime]
Eventually = Callable[..., None]
NUMBER = {"columnName": "n", "transformFunction": "CAST(raw AS LONG)"}
MENDED = {"columnName": "n", "transformFunction": "CAST(REPLACE(raw, ' pieces', '') AS LONG)"}
PATH = "/tables/t/deadLetters/replay"


def messages(*raw: str) -> pa.BinaryArray:
    return pa.array([orjson.dumps({"s": "x", "p": 0, "raw": n, "ts": 1_700_000_000_000}) for n in raw], pa.binary())


def letters(table: Realtime) -> dict[str, Any]:
    return {letter["offset"]: letter for letter in table.rest("GET", "/tables/t/deadLetters")["deadLetters"]}


def numbers(table: Realtime) -> list[int]:
    answer = table.ask("SELECT n FROM t ORDER BY n LIMIT 100")
    return [n for (n,) in answer["resultTable"]["rows"]] if "resultTable" in answer else []


def replay(table: Realtime, *offsets: str, **params: Any) -> dict[str, Any]:
    body = [{"partition": 0, "offset": offset} for offset in offsets]
    return dict(table.rest("POST", PATH, params=params, **({"json": body} if body else {})))


def commit(table: Realtime, eventually: Eventually) -> None:
    before = len(table.segments())
    table.rest("POST", "/tables/t/forceCommit")
    eventually(lambda: list(table.segments().values()) == ["ONLINE"] * before + ["CONSUMING"])


def test_a_message_becomes_a_row_once_the_table_takes_it(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    table = make_realtime(start=False)
    table.table["ingestionConfig"]["transformConfigs"] = [NUMBER]
    table.start()
    table.create()
    keys = pa.array([b"a", b"b", None, b"d"], pa.binary())
    table.producer.send(messages("0", "1 pieces", "2 pieces", "3"), keys, partition=0)
    eventually(lambda: numbers(table) == [0, 3] and len(letters(table)) == 2)
    assert [(e["offset"], e["kind"], e["key"]) for e in letters(table).values()] == [
        ("1", "UNCONVERTIBLE", base64.b64encode(b"b").decode()), ("2", "UNCONVERTIBLE", None),
    ]  # fmt: skip

    # a server that consumes the segment again reads the first copy, too
    (refused,) = replay(table, "1")["notReplayed"]
    assert "is not committed yet" in refused["reason"]
    table.table["ingestionConfig"]["transformConfigs"] = [MENDED]
    table.rest("PUT", "/tables/t", json=table.table)
    commit(table, eventually)

    answer = replay(table, "1")
    assert answer == {
        "tableName": "t_REALTIME", "replayed": [{"partition": 0, "offset": "1", "replayedTo": "4"}], "notReplayed": [],
        "more": False, "serversFailingToRespond": [],
    }  # fmt: skip
    eventually(lambda: numbers(table) == [0, 1, 3])
    shown = letters(table)
    assert (shown["1"]["replayedTo"], shown["2"]["replayedTo"], list(shown)) == ("4", None, ["1", "2"])
    (refused,) = replay(table, "1")["notReplayed"]
    assert "replayed already, to offset 4" in refused["reason"]
    assert [entry["offset"] for entry in replay(table, all=True)["replayed"]] == ["2"]
    assert replay(table, all=True)["replayed"] == []
    eventually(lambda: numbers(table) == [0, 1, 2, 3])

    table.stop()
    table.start()
    eventually(lambda: numbers(table) == [0, 1, 2, 3])
    assert [entry["replayedTo"] for entry in letters(table).values()] == ["4", "5"]
    assert replay(table, "1", again=True)["replayed"] == [{"partition": 0, "offset": "1", "replayedTo": "6"}]
    eventually(lambda: numbers(table) == [0, 1, 1, 2, 3])
    assert letters(table)["1"]["replayedTo"] == "6"
    status = table.rest("GET", "/tables/t/realtimeStatus")["servers"]
    assert [server["deadLetters"]["UNCONVERTIBLE"] for server in status.values()] == [2]


def test_a_table_that_is_created_while_its_absence_is_noted_keeps_its_consumers(
    make_realtime: MakeRealtime, eventually: Eventually
) -> None:
    table = make_realtime()
    assert table.cluster is not None
    server = table.cluster.core.server
    eventually(lambda: server.consumers.consumers("t_REALTIME") != {})
    before = server.consumers.consumers("t_REALTIME")
    server._drop("t_REALTIME")  # by who read the ideal state before it was there
    assert server.consumers.consumers("t_REALTIME") == before


def test_a_message_that_is_taken_when_it_is_consumed_again(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    table = make_realtime(start=False)
    table.table["ingestionConfig"]["transformConfigs"] = [NUMBER]
    table.start()
    table.create()
    table.producer.send(messages("0", "1 pieces", "2 bits", "3"), partition=0)
    eventually(lambda: numbers(table) == [0, 3] and len(letters(table)) == 2)
    table.table["ingestionConfig"]["transformConfigs"] = [MENDED]
    table.rest("PUT", "/tables/t", json=table.table)
    table.stop()
    table.start()  # what was not committed is read again
    eventually(lambda: numbers(table) == [0, 1, 3])
    commit(table, eventually)
    assert {offset: letter["replayedTo"] for offset, letter in letters(table).items()} == {"1": "1", "2": None}
    assert "consumed it again successfully" in replay(table, "1")["notReplayed"][0]["reason"]
    assert [entry["offset"] for entry in replay(table, all=True)["replayed"]] == ["2"]
    eventually(lambda: list(letters(table)) == ["1", "2", "4"])
    assert numbers(table) == [0, 1, 3]


def test_the_message_has_its_key_still_and_who_sent_it_is_in_the_audit_log(
    make_realtime: MakeRealtime, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_realtime()
    table.producer.send(pa.array([b"{"], pa.binary()), pa.array([b"the key"], pa.binary()), partition=0)
    eventually(lambda: len(letters(table)) == 1)
    commit(table, eventually)
    with caplog.at_level("INFO", logger="gamay.audit"):
        replay(table, "0")
        eventually(lambda: "ReplayDeadLetters of t, POST '/tables/t/deadLetters/replay': 200" in caplog.text)
    eventually(lambda: len(letters(table)) == 2)
    first, second = letters(table).values()
    for name in ("payload", "key", "kind", "partition"):
        assert first[name] == second[name] is not None
    assert (first["replayedTo"], second["offset"], second["replayedTo"]) == ("1", "1", None)


def test_what_cannot_be_replayed(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    topic = TopicConfig(1, segment_bytes=65_536, retention_bytes=65_536)
    table = make_realtime(topic=topic, segment_rows=1_000_000)
    table.produce(10)
    eventually(table.all_there)
    table.stop()
    for _ in range(40):
        table.produce(200)
    table.start()
    eventually(lambda: len(letters(table)) == 1)
    answer = replay(table, "0", "7")
    assert answer["replayed"] == []
    reasons = {entry["offset"]: entry["reason"] for entry in answer["notReplayed"]}
    assert "the stream had lost these messages" in reasons["0"]
    assert "no server that answers has a dead letter" in reasons["7"]
    assert replay(table, all=True)["notReplayed"] == []


def test_a_request_says_what_to_replay(make_realtime: MakeRealtime) -> None:
    table = make_realtime()
    url = table.cluster.controller_url + PATH

    def refusal(**request: Any) -> str:
        answer = httpx.post(url, **request)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"])

    for request in ({}, {"json": []}, {"params": {"all": "false"}}):
        assert "say what to replay" in refusal(**request)
    for body in ({}, [1], [{"partition": 0}], [{"partition": True, "offset": "1"}], [{"partition": 0, "offset": 1}]):
        assert "the request body" in refusal(json=body)
    message = [{"partition": 0, "offset": "1"}]
    assert "all=true cannot be combined" in refusal(json=message, params={"all": "true"})
    assert httpx.post(url.replace("/t/", "/u/"), json=message).status_code == 404


def test_servers_are_asked_and_told_over_http(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    table = make_realtime()
    table.producer.send(pa.array([b"{", b"[", b"("], pa.binary()), partition=0)
    eventually(lambda: len(letters(table)) == 3)
    core = table.cluster.core
    server, name, places = core.server.id, "t_REALTIME", [(0, "0"), (0, "2"), (0, "7")]
    remote, local = HttpServers(core.registry), core.server.consumers.dead_letters(name)
    remote.note_replayed(server, name, {(0, "2"): "5"})
    assert remote.replayable(server, name, 1) == local.replayable(1) == ([(0, "0")], True)
    assert remote.find_dead_letters(server, name, places) == local.find(places)
    assert local.find(places)[1] == {(0, "2"): "5"}
    assert remote.dead_letters(server, name, 2) == local.entries(2)
    url = f"{table.cluster.server_url}/tables/t_REALTIME/deadLetters"
    for body in (
        None,
        {},
        {"messages": [1]},
        {"messages": [{"partition": 0}]},
        {"messages": [{"partition": 0, "offset": "1"}]},
    ):
        assert httpx.post(f"{url}/replayed", json=body).status_code == 400
    assert httpx.get(f"{url}/replayable", params={"limit": "-1"}).status_code == 400
    assert httpx.post(url.replace("/t_", "/u_") + "/find", json={"messages": []}).status_code == 404
    with pytest.raises(NotFoundError, match="not loaded"):
        remote.replayable(server, "u_REALTIME", 1)
    remote.close()


@pytest.mark.kafka
def test_a_message_of_kafka_is_replayed_with_its_key_and_headers(
    make_realtime: MakeRealtime, eventually: Eventually, kafka: KafkaHarness
) -> None:
    table = make_realtime(kafka=kafka, partitions=2, **{"stream.kafka.metadata.populate": "true"})
    headers = [("h", b"1"), ("h", b"\xff")]
    kafka.producer.produce(kafka.topic("t"), b"{", b"k", 1, headers=headers)
    kafka.producer.flush(30)
    eventually(lambda: len(letters(table)) == 1)
    table.rest("POST", "/tables/t/forceCommit")
    body = [{"partition": 1, "offset": "0"}]
    eventually(lambda: table.rest("POST", PATH, json=body)["replayed"] == [{**body[0], "replayedTo": "1"}])
    eventually(lambda: len(letters(table)) == 2)
    first, second = letters(table).values()
    for name in ("payload", "key", "headers", "partition", "kind"):
        assert first[name] == second[name] is not None
    assert (first["replayedTo"], second["offset"], second["replayedTo"]) == ("1", "1", None)
    assert [(name, base64.b64decode(value)) for name, value in second["headers"]] == headers


def test_the_command_line_replays(make_realtime: MakeRealtime, eventually: Eventually) -> None:
    table = make_realtime()
    table.producer.send(pa.array([b"{", b"["], pa.binary()), partition=0)
    eventually(lambda: len(letters(table)) == 2)
    commit(table, eventually)

    def run(*arguments: str) -> Any:
        known = ["admin", "realtime", "dead-letters", "t", "--controller", table.cluster.controller_url]
        return CliRunner().invoke(app, [*known, *arguments])

    assert orjson.loads(run("--replay", "0:1").output) == {"partition": 0, "offset": "1", "replayedTo": "2"}
    assert orjson.loads(run("--replay-all").output.splitlines()[0]) == {"partition": 0, "offset": "0", "replayedTo": "3"}
    assert "replayed already" in run("--replay", "0:1").output
    assert "is no PARTITION:OFFSET" in run("--replay", "1").output
