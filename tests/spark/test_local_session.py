"""How local sessions are started, and how they send rows to Python."""

import re
import subprocess
import sys

import pyarrow as pa
import pytest

from gamay.spark.session.gateway import java_path
from gamay.spark.session.local import _JAVA_ENVIRONMENT, _java_options

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("settings", "environment", "collector"),
    [
        ({}, {}, "Parallel"),
        ({"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Dx=y"}, {}, "Serial"),
        ({"spark.driver.extraJavaOptions": "-XX:+UseStringDeduplication"}, {}, "Parallel"),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseG1GC"}, "G1"),
        ({}, {"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"}, "Serial"),
    ],
)
def test_java_starts_with_one_collector(settings, environment, collector, monkeypatch):
    for name in _JAVA_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = _java_options(settings).split()
    flags = subprocess.run(
        [java_path(), *options, "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"bool Use(Serial|Parallel|G1|Z|Shenandoah)GC += +true", flags) == [collector]


def test_the_number_of_rows_alone_bounds_a_batch(spark):
    def sizes(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    texts = spark.range(0, 10_000, 1, 1).selectExpr("repeat('x', 10000) AS text")
    rows = [row.rows for row in texts.mapInArrow(sizes, "rows bigint").collect()]
    assert sum(rows) == 10_000
    assert rows[0] * 10_000 > 75 << 20  # with its own limit Spark sends 64 MiB at a time


def test_planning_a_write_does_not_load_the_engine():
    modules = "gamay.spark.source, gamay.spark.writing.sink, gamay.spark.streaming.sink"
    code = f"import sys, {modules}\nprint({{'numba', 'duckdb'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
