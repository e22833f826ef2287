"""lookUp over real sockets: the broker finds the table, servers the rows."""

from typing import Any

import pytest
from tests.broker.conftest import SCHEMA, Cluster, NewCluster, rows_of
from tests.dimension_tables import SECTIONS

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.layout.rebuild import TableLayout


@pytest.fixture
def dimensions(new_cluster: NewCluster) -> Cluster:
    """Return two servers with all segments of a dimension table, which is queried itself."""
    cluster = new_cluster(2)
    keyed = {**SCHEMA, "primaryKeyColumns": ["n"]}
    cluster.registry.put_schema("t", keyed)
    config = TableConfig.from_json({**TableConfig.offline("t").to_json(), **SECTIONS}).value
    for server in cluster.servers:
        server.hosted.store_as(TableLayout(Schema.from_json(keyed).value, config))
    segments = {f"s{i}": rows_of(50 * i, 50) for i in range(4)}
    cluster.create("t_OFFLINE", segments, dict.fromkeys(segments, (0, 1)), config=SECTIONS)
    return cluster


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT n, lookUp('t', 'k', 'n', n + 1) FROM t ORDER BY n LIMIT 2", [[0, "key1"], [1, "key2"]]),
        ("SELECT lookUp('T', 'X', 'N', 299 - n) AS x FROM t ORDER BY n DESC LIMIT 1", [[25.0]]),
        ("SELECT COUNT(*) FROM t WHERE lookUp('t', 'x', 'n', n) = 3", [[1]]),
        ("SELECT COUNT(*) FROM t WHERE lookUp('t', 'k', 'n', n) = 'key3' AND n < 20", [[3]]),
        ("SELECT COUNT(*) FROM t WHERE lookUp('t', 'k', 'n', 3) = 'key3'", [[200]]),
        (
            "SELECT lookUp('t', 'k', 'n', n) AS g, COUNT(*) FROM t GROUP BY g ORDER BY g LIMIT 2",
            [["key0", 29], ["key1", 29]],
        ),
    ],
)
def test_servers_look_values_up(dimensions: Cluster, sql: str, rows: list[Any]) -> None:
    for _ in range(3):  # plans are known from the second time on
        answer = dimensions.ask(sql)
        assert answer["exceptions"] == []
        assert answer["resultTable"]["rows"] == rows


def test_types_follow_the_schema_of_the_dimension_table(dimensions: Cluster) -> None:
    """A query is repeated after the column's type changed: no cache may return the old type."""
    sql = "SELECT lookUp('t', 'n', 'n', n) FROM t ORDER BY n LIMIT 1"
    assert dimensions.ask(sql)["resultTable"]["dataSchema"]["columnDataTypes"] == ["INT"]
    other = sql.replace("'n', 'n'", "'k', 'n'")
    assert dimensions.ask(other)["resultTable"]["dataSchema"]["columnDataTypes"] == ["STRING"]
    for column, wanted in (("n", 1), ("k", 0)):
        where = f"SELECT COUNT(*) FROM t WHERE lookUp('t', '{column}', 'n', n) = '7'"
        assert dimensions.ask(where)["resultTable"]["rows"] == [[wanted]]
