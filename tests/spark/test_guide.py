"""What `docs/guide/spark.md` shows works, and its tables name all options."""

import re
from pathlib import Path

import pytest
from tests.spark.cluster import Cluster, offline_config
from tests.waiting import eventually

from gamay.spark import source_options

pytestmark = pytest.mark.spark
GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
TRIPS = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}


def test_the_tables_name_all_options():
    sections = dict(zip(["", *re.findall(r"\n## (.*)\n", GUIDE)], re.split(r"\n## .*\n", GUIDE), strict=True))
    reading, writing = set(source_options.READING), set(source_options.WRITING)
    known = {
        "Reading": reading,
        "Writing": writing,
        "Streams in": set(source_options.STREAM_WRITING) ^ writing,  # what is not as for writing
        "Streams out": set(source_options.STREAM_READING) - reading | {"pushDown", "tableType"},
    }
    for title, names in known.items():
        rows = [line.split("|") for line in sections[title].splitlines() if line.startswith(("| `", "| all of"))]
        named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
        assert named | {name for row in rows[:1] for name in re.findall(r"`(\w+)`", row[2])} >= names
        assert named <= names


def test_the_examples_run(spark, tmp_path, capsys):
    cluster = Cluster(tmp_path)
    try:
        cluster.create(TRIPS, offline_config("trips", "ts"))
        names = {"spark": spark, "URL": cluster.url, "CHECKPOINT": str(tmp_path / "checkpoint")}
        names["JDBC"] = "jdbc:derby:memory:city;create=true"
        spark.sql("SELECT 7 AS n, 'Oslo' AS city").write.jdbc(names["JDBC"], "fares")
        names["SUMMARY"] = str(tmp_path / "summary.json")
        for example in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
            exec(example, names)
        assert names["morning"].columns == ["ts", "fare"]
        assert spark.table("trips").columns == ["city", "fare", "ts"]
        eventually(lambda: cluster.count("rides") == 2)
        eventually(lambda: cluster.rows("SELECT n, city FROM fares") == [(7, "Oslo")])
    finally:
        cluster.stop()
