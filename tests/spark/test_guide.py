"""The examples of the pages about Spark work, and the tables of the guide list all options."""

import re
from pathlib import Path

import pytest
from tests.spark.cluster import Cluster, offline_config
from tests.waiting import eventually

from gamay.spark import source_options

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parents[2] / "docs"
GUIDE, TUTORIAL = ((DOCS / folder / "spark.md").read_text(encoding="utf-8") for folder in ("guide", "tutorials"))
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
        "Streaming writes": set(source_options.STREAM_WRITING) ^ writing,  # what is not as for writing
        "Streaming reads": set(source_options.STREAM_READING) - reading | {"pushDown", "tableType"},
    }
    for title, names in known.items():
        rows = [line.split("|") for line in sections[title].splitlines() if line.startswith(("| `", "| all of"))]
        named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
        assert named | {name for row in rows[:1] for name in re.findall(r"`(\w+)`", row[2])} >= names
        assert named <= names


def run(page, names):
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example, names)


def test_the_examples_run(spark, tmp_path, capsys):
    cluster = Cluster(tmp_path)
    try:
        cluster.create(TRIPS, offline_config("trips", "ts"))
        names = {"spark": spark, "URL": cluster.url, "CHECKPOINT": str(tmp_path / "checkpoint")}
        names["JDBC"] = "jdbc:derby:memory:city;create=true"
        spark.sql("SELECT 7 AS n, 'Oslo' AS city").write.jdbc(names["JDBC"], "fares")
        names["SUMMARY"] = str(tmp_path / "summary.json")
        run(GUIDE, names)
        assert names["morning"].columns == ["ts", "fare"]
        assert spark.table("trips").columns == ["city", "fare", "ts"]
        eventually(lambda: cluster.count("rides") == 2)
        eventually(lambda: cluster.rows("SELECT n, city FROM fares") == [(7, "Oslo")])
    finally:
        cluster.stop()


def test_the_tutorial_comes_to_what_it_says(spark, tmp_path):
    cluster = Cluster(tmp_path)
    try:
        names = {"spark": spark, "URL": cluster.url, "LAKE": str(tmp_path / "lake")}
        run(TUTORIAL, names)
        fares = [10 + hour % 20 for hour in range(31 * 24)]
        fares[48:72] = [fare * 0.085 for fare in fares[48:72]]
        eventually(lambda: cluster.count("cab_trips") == len(fares))
        ((total,),) = cluster.rows("SELECT SUM(fare) FROM cab_trips")
        assert total == pytest.approx(sum(fares))
        assert names["by_hour"].count() == 5
        assert sorted(map(tuple, names["countries"].collect())) == [("CH", 248), ("NO", 248)]
    finally:
        cluster.stop()
