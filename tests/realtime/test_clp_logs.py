"""Log messages encoded by the CLP decoder are restored by queries."""

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa

PARTS = [("_logtype", True, "STRING"), ("_dictionaryVars", False, "STRING"), ("_encodedVars", False, "LONG")]


def test_messages_of_a_stream(make_realtime: Callable[..., Any], eventually: Callable[..., None]) -> None:
    realtime = make_realtime()
    fields: list[dict[str, Any]] = [
        {"name": name, "dataType": "STRING", "maxLength": 9999} for name in ("topic", "message_odd", "level")
    ]
    fields += [{"name": f"message{suffix}", "singleValueField": single, "dataType": kind} for suffix, single, kind in PARTS]
    time = {"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}
    schema = {"schemaName": "logs", "dimensionFieldSpecs": fields, "dateTimeFieldSpecs": [time]}
    (streams,) = realtime.table["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"]
    properties = {
        "fieldsForClpEncoding": "message", "topicNameDestinationColumn": "topic", "unencodableFieldSuffix": "_odd",
        "unencodableFieldError": "too many in 1 message", "removeProcessedFields": "true",
    }  # fmt: skip
    decoder = "org.apache.pinot.plugin.inputformat.clplog.CLPLogMessageDecoder"
    streams |= {"stream.log.decoder.class.name": decoder, "realtime.segment.flush.threshold.segment.rows": "3"}
    streams |= {f"stream.log.decoder.prop.{name}": value for name, value in properties.items()}
    realtime.rest("POST", "/schemas", json=schema)
    realtime.rest("POST", "/tables", json=realtime.table | {"tableName": "logs"})
    messages = [
        "Task task_12 took 0.335 seconds, 8 remain", "C:\\\\temp\\\\a \x12 é=x", "", {"a": [1, "b2"]}, "no variable",
        " ".join(map(str, range(1001))),
    ]  # fmt: skip
    rows = [{"message": message, "level": f"L{n}", "ts": 1_700_000_000_000 + n} for n, message in enumerate(messages)]
    realtime.producer.send(
        pa.array([*map(orjson.dumps, rows), b'{"level": "L6", "ts": 1700000000006}'], pa.binary()), partition=0
    )
    asked = "SELECT level, topic, clpDecode(message, 'none'), message_odd FROM logs ORDER BY level"

    def answer() -> Any:
        return realtime.ask(asked).get("resultTable", {}).get("rows", [])

    eventually(lambda: len(answer()) == 7)
    shown = [*messages[:3], '{"a":[1,"b2"]}', messages[4], "too many in 1 message"]
    assert answer()[:6] == [[f"L{n}", "t", text, messages[5] if n == 5 else "null"] for n, text in enumerate(shown)]
    types = realtime.ask("SELECT message_logtype FROM logs WHERE level = 'L0'")["resultTable"]["rows"]
    assert types == [["Task \x12 took \x13 seconds, \x11 remain"]]
