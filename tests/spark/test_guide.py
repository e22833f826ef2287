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
    reading, writing = GUIDE.split("\n## Streams in\n")[0].split("\n## Writing\n")
    for text, known in ((reading, source_options.READING), (writing, source_options.WRITING)):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        named = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
        assert named == set(known)


def test_the_examples_run(spark, tmp_path, capsys):
    cluster = Cluster(tmp_path)
    try:
        cluster.create(TRIPS, offline_config("trips", "ts"))
        names = {"spark": spark, "URL": cluster.url, "CHECKPOINT": str(tmp_path / "checkpoint")}
        for example in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
            exec(example, names)
        assert names["morning"].columns == ["ts", "fare"]
        assert spark.table("trips").columns == ["city", "fare", "ts"]
        eventually(lambda: cluster.count("rides") == 1)
    finally:
        cluster.stop()
