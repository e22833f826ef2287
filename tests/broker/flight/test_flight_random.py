"""Random queries over Flight SQL against the same queries over HTTP, including consuming rows."""

import random
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.broker.flight.test_flight_sql import json_value
from tests.client.alchemy.test_alchemy import ROWS, statement
from tests.waiting import PATIENCE_S, eventually

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")

SCHEMA: dict[str, Any] = {
    "schemaName": "events",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
STREAM = {
    "streamType": "log",
    "stream.log.topic.name": "events",
    "stream.log.decoder.class.name": "JSONMessageDecoder",
    "stream.log.consumer.prop.auto.offset.reset": "smallest",
}
TABLE: dict[str, Any] = {
    "tableName": "events",
    "tableType": "REALTIME",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"streamConfigs": STREAM},
    "metadata": {},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("flight-random") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table(ROWS))
    with EmbeddedCluster(folder, 0, 0, 0, flight_port=0, threads=1, warm_up=False) as found:
        yield found


def check(cluster: EmbeddedCluster, cursor: Any, sql: str) -> None:
    """Compare both protocols, also with null handling."""
    for text in (sql, f"SET enableNullHandling=true; {sql}"):
        answer = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": text}, timeout=PATIENCE_S).json()
        assert not answer["exceptions"], text
        cursor.execute(text)
        found = cursor.fetch_arrow_table()
        assert found.column_names == answer["resultTable"]["dataSchema"]["columnNames"], text
        columns = [[json_value(value) for value in column.to_pylist()] for column in found.columns]
        assert [list(row) for row in zip(*columns, strict=True)] == answer["resultTable"]["rows"], text


def test_random_queries_are_answered_as_over_http(cluster: EmbeddedCluster) -> None:
    pytest.importorskip("sqlalchemy")
    from gamay.client.alchemy.dialect import GamayDialect

    dialect = GamayDialect()
    with adbc.connect(cluster.flight_url, autocommit=True) as connection, connection.cursor() as cursor:
        for seed in range(100, 150):
            made = statement(random.Random(seed)).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
            check(cluster, cursor, str(made).replace("%%", "%"))


def test_rows_that_are_consumed(cluster: EmbeddedCluster) -> None:
    streams = cluster.core.layout.streams
    producer = Producer(create_topic(streams, "events", TopicConfig(1)), SYSTEM_CLOCK)
    with httpx.Client(base_url=cluster.controller_url, timeout=PATIENCE_S) as http:
        assert http.post("/schemas", json=SCHEMA).status_code == 200
        answer = http.post("/tables", json=TABLE)
        assert answer.status_code == 200, answer.text
    lines = [b'{"city": "city%d", "n": %d, "ts": %d}' % (i % 3, i, 1_700_000_000_000 + i) for i in range(50)]
    producer.send(pa.array(lines, pa.binary()))
    producer.close()
    with adbc.connect(cluster.flight_url, autocommit=True) as connection, connection.cursor() as cursor:

        def count() -> Any:
            cursor.execute("SELECT COUNT(*) FROM events")
            return cursor.fetchall()[0][0]

        eventually(lambda: count() == 50, count)
        check(cluster, cursor, "SELECT city, ts, n FROM events WHERE n >= 45 ORDER BY n")
        check(cluster, cursor, "SELECT city, SUM(n), MAX(ts) FROM events GROUP BY city ORDER BY city")
